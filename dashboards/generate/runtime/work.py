"""What the guard did: how calls ended, how long they took, retries, fallbacks, calls that still run."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.charts import Series, bars, chart, heatmap
from dashboards.generate.fields import COUNT, SECONDS, Limits
from dashboards.generate.panels import log_lines, stat
from dashboards.generate.promql import KIND, OUTCOME, TOOL, added, series, sum_by
from dashboards.generate.runtime.counts import RANGE, STEP, executed, traces_and_logs
from dashboards.generate.runtime.scope import OF_TOOL
from dashboards.generate.tables import found_spans
from toolmend.telemetry import names

_COLORS = {
    "ok": "green",
    "degraded": "orange",
    "failed": "red",
    "cancelled": "text",
    "abandoned": "purple",
}
_BUCKETS = added(names.TOOL_DURATION, "$__interval", OF_TOOL, by=["le"], suffix="_bucket")
_ABANDONED = series(names.TOOL_CALLS_ABANDONED, OF_TOOL)


def still_running() -> Any:
    """Return how many calls nobody waits for any more."""
    return stat(
        "Still running",
        "Calls that were given up at their time limit and run on now, since nothing can stop them. Each "
        "holds a thread or a connection.",
        f"sum({_ABANDONED}) or vector(0)",
        decimals=0,
        limits=Limits(orange=1),
    )


def fallbacks_used() -> Any:
    """Return how many answers came from a fallback."""
    return stat(
        "Fallbacks",
        "Calls in the time shown that a fallback answered: another tool, a default value, a person.",
        f"{added(names.FALLBACKS, RANGE, OF_TOOL)} or vector(0)",
        decimals=0,
    )


def outcomes() -> Any:
    """Return executions by outcome, over time."""
    ended = added(names.TOOL_CALLS_EXECUTED, "$__interval", OF_TOOL, by=[OUTCOME])
    return bars(
        "Executions by outcome",
        "How calls of guarded tools ended: ok; degraded (a fallback answered); failed; cancelled by the "
        "caller; abandoned (given up at the time limit, and it runs on).",
        Series(expr=ended, legend=f"{{{{{OUTCOME}}}}}"),
        step=STEP,
        colors=_COLORS,
        links=traces_and_logs(),
    )


def duration() -> Any:
    """Return how long calls take, over time."""
    return chart(
        "Duration",
        "From the call to its result, retries and fallback included. The dots are traces.",
        [
            Series(
                # A quantile of nothing is NaN, which no comparison lets through.
                expr=f"histogram_quantile({quantile}, {_BUCKETS}) >= 0",
                legend=legend,
                exemplars=quantile == "0.99",
            )
            for quantile, legend in (("0.5", "half of the calls"), ("0.99", "99 of 100"))
        ],
        unit=SECONDS,
        step=STEP,
    )


def spread() -> Any:
    """Return how durations are spread, over time."""
    return heatmap(
        "Spread of durations",
        "Calls by how long they took. Two bands: some calls are answered, others run into the limit.",
        _BUCKETS,
        unit=SECONDS,
        step=STEP,
    )


def retries() -> Any:
    """Return how often calls are tried again, over time."""
    again = added(names.TOOL_CALLS_RETRIED, "$__interval", OF_TOOL, by=[TOOL])
    return chart(
        "Retries per execution",
        "Attempts beyond the first, per call, for the ten tools with the most. It rises before the "
        "error share does: retries still hide the failures.",
        [
            Series(
                expr=f"topk(10, {again} / ({executed('$__interval', TOOL)} > 0))",
                legend=f"{{{{{TOOL}}}}}",
            )
        ],
        unit=COUNT,
        step=STEP,
    )


def fallbacks() -> Any:
    """Return fallbacks by kind, over time."""
    kinds = added(names.FALLBACKS, "$__interval", OF_TOOL, by=[KIND])
    return bars(
        "Fallbacks by kind",
        "Calls that a fallback answered: another tool (alternative), a default value, a person (human).",
        Series(expr=kinds, legend=f"{{{{{KIND}}}}}"),
        step=STEP,
    )


def abandoned() -> Any:
    """Return the calls that run on, over time."""
    return chart(
        "Abandoned calls that still run",
        "Calls given up at their time limit whose function has not returned, for the ten tools with the "
        "most. A line that only rises: they never return.",
        [Series(expr=f"topk(10, {sum_by([TOOL])}({_ABANDONED}))", legend=f"{{{{{TOOL}}}}}")],
        unit=COUNT,
    )


def failed_executions() -> Any:
    """Return the spans of calls that did not end well."""
    told = (names.TOOL, names.OUTCOME, names.ERROR_TYPE, names.ATTEMPTS, names.THREAD)
    return found_spans(
        "Failed executions",
        "Traces of calls that did not end well, cancelled ones included.",
        links.selected(links.traces_failed(), *told),
    )


def failing_logs() -> Any:
    """Return the log records of failing tools."""
    return log_lines(
        "Logs of failing tools",
        "One record per failed call, per opened breaker and per tool whose definition is broken.",
        links.logs_of(links.TOOL_TROUBLE, "$service", tool="$tool"),
    )
