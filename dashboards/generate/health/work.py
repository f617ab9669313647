"""What toolmend did: outcomes, repairs, what they cost, and each mended call."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.charts import Series, bars, chart
from dashboards.generate.fields import PER_SECOND, SECONDS, Limits
from dashboards.generate.health.scope import OF_MODEL
from dashboards.generate.panels import log_lines
from dashboards.generate.promql import ACTION, FINDING, OUTCOME, added, rate
from dashboards.generate.variables import OF_SERVICE
from toolmend.telemetry import names

_RATE = "$__rate_interval"


def outcomes() -> Any:
    """Return model calls by outcome, over time."""
    return chart(
        "Outcomes",
        "Model calls by what was done to their history. Not narrowed by tool.",
        [
            Series(
                expr=rate(names.MODEL_CALLS, _RATE, OF_MODEL, by=[OUTCOME]),
                legend=f"{{{{{OUTCOME}}}}}",
            )
        ],
        unit=PER_SECOND,
        stacked=True,
    )


def what_was_done() -> Any:
    """Return repairs by finding and action, over time."""
    # Counted and not a rate: most kinds are rare, and a rate never sees the first of a series.
    repairs = added(names.REPAIR_COUNT, "$__interval", OF_MODEL, by=[FINDING, ACTION])
    return bars(
        "What was done",
        "Repairs by what was found and what was done about it, repeats included. Not narrowed by tool.",
        Series(expr=repairs, legend=f"{{{{{FINDING}}}}}: {{{{{ACTION}}}}}"),
        step="5m",
    )


def repair_latency() -> Any:
    """Return what repair costs, over time."""
    buckets = rate(names.REPAIR_DURATION, _RATE, OF_SERVICE, by=["le"], suffix="_bucket")
    return chart(
        "Repair latency",
        "Time that toolmend adds to a model call. The dots are traces. Narrowed by service alone.",
        [
            Series(
                expr=f"histogram_quantile({quantile}, {buckets})",
                legend=legend,
                exemplars=quantile == "0.99",
            )
            for quantile, legend in (("0.5", "half of the calls"), ("0.99", "99 of 100"))
        ],
        unit=SECONDS,
        limits=Limits(red=0.01),
    )


def mended_calls() -> Any:
    """Return the log records of mended calls."""
    return log_lines(
        "Mended calls",
        "One record per request with a new dangling call that was mended, or would have been in "
        "observe mode. Narrowed by service alone.",
        links.logs_of(links.MENDED, "$service"),
    )
