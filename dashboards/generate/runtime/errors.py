"""Which tool fails, how often, since when and why: the first screen of *Tool runtime*."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.charts import Series, bars, chart
from dashboards.generate.fields import PERCENT, SECONDS
from dashboards.generate.health import scope as health
from dashboards.generate.panels import stat
from dashboards.generate.promql import ERROR_TYPE, FAILING, TOOL, added
from dashboards.generate.runtime.counts import (
    ERROR_LIMITS,
    RANGE,
    STEP,
    executed,
    failing,
    failing_or_none,
    settled,
    traces_and_logs,
)
from dashboards.generate.runtime.scope import KEPT, OF_TOOL, UID
from dashboards.generate.tables import Column, table
from toolmend.telemetry import names


def error_share() -> Any:
    """Return the number to watch."""
    return stat(
        "Error share, 15 min",
        "Of the executions of the last 15 minutes: the part that failed, was given up, or was "
        "answered by a fallback. Cancelled ones count on neither side: they say nothing about the "
        "tool. Orange from 5 %, red from 20 %.",
        f"{failing_or_none('15m')} / ({settled('15m')} > 0)",
        unit=PERCENT,
        decimals=1,
        limits=ERROR_LIMITS,
        empty="none run",
        links=traces_and_logs(),
    )


def executions() -> Any:
    """Return how much was run."""
    return stat(
        "Executions",
        "Calls of guarded tools in the time shown, however they ended.",
        f"{executed(RANGE)} or vector(0)",
        decimals=0,
    )


def failures() -> Any:
    """Return how much did not end well."""
    return stat(
        "Failing",
        "Executions in the time shown that failed, were given up, or were answered by a fallback.",
        f"{failing(RANGE)} or vector(0)",
        decimals=0,
        links=traces_and_logs(),
    )


def error_share_by_tool() -> Any:
    """Return the error share over time."""
    share = f"{failing_or_none('$__interval', TOOL)} / ({settled('$__interval', TOOL)} > 0)"
    return chart(
        "Error share by tool",
        "Failed, given up and degraded executions over all but the cancelled ones, for the ten tools "
        "with the highest. The lines are at 5 % and 20 %; from 20 % over half an hour "
        "ToolmendToolFailing fires.",
        [Series(expr=f"topk(10, {share})", legend=f"{{{{{TOOL}}}}}")],
        unit=PERCENT,
        limits=ERROR_LIMITS,
        maximum=0.25,
        step=STEP,
        links=traces_and_logs(),
    )


def errors_by_type() -> Any:
    """Return the reasons over time."""
    errors = added(names.TOOL_CALLS_EXECUTED, "$__interval", OF_TOOL, FAILING, by=[ERROR_TYPE])
    return bars(
        "Why they fail",
        "Failing executions by the class of their last error.",
        Series(expr=errors, legend=f"{{{{{ERROR_TYPE}}}}}"),
        step=STEP,
        links=traces_and_logs(),
    )


def which_tool() -> Any:
    """Return the tools that fail most."""
    lost = failing_or_none(RANGE, TOOL)
    buckets = added(names.TOOL_DURATION, RANGE, OF_TOOL, by=["le", TOOL], suffix="_bucket")
    most = f"topk(20, {lost})"  # all columns for the same rows, and never more of them
    # A quantile of nothing is NaN, which no comparison lets through.
    slow = f"histogram_quantile(0.99, {buckets}) >= 0"
    return table(
        "Which tool",
        "The tools with the most failing executions in the time shown, and the others below them. "
        "99 of 100 calls took at most the time in the last column. Tools past 100 of one process, and "
        "those that a model made up, share the name _OTHER.",
        label=TOOL,
        head="Tool",
        columns=[
            Column(title="Failing", expr=most),
            Column(
                title="Error share",
                expr=f"{lost} / ({settled(RANGE, TOOL)} > 0) and {most}",
                unit=PERCENT,
                limits=ERROR_LIMITS,
            ),
            Column(title="Executions", expr=f"{executed(RANGE, TOOL)} and {most}"),
            Column(title="p99", expr=f"({slow}) and {most}", unit=SECONDS),
        ],
        links=[
            links.narrow(UID, "tool", KEPT),
            links.other_board("Calls of this tool without a result", health.UID, "tool", KEPT),
            links.explore_traces(
                "Failed executions of this tool", links.traces_failed(links.CLICKED)
            ),
            links.explore_traces(
                "All executions of this tool", links.traces_of_tool(links.CLICKED)
            ),
            links.explore_logs(
                "Logs of this tool", links.logs_of(links.TOOL_TROUBLE, tool=links.CLICKED)
            ),
        ],
    )
