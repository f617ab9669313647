"""Which tools, models and conversations lose calls."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.fields import PERCENT
from dashboards.generate.health.counts import dangling, requested
from dashboards.generate.health.scope import KEPT, UID
from dashboards.generate.health.severity import PATCH_LIMITS
from dashboards.generate.promql import MODEL, THREAD, TOOL, added
from dashboards.generate.runtime import scope as runtime
from dashboards.generate.tables import Column, log_counts, table
from dashboards.generate.variables import OF_SERVICE
from toolmend.telemetry import names

_RANGE = "$__range"


def which_tool() -> Any:
    """Return the tools hit most."""
    return table(
        "Which tool",
        "The tools with the most new dangling calls in the time shown. Past 100 tools of one "
        "process, further ones share the name _OTHER.",
        label=TOOL,
        head="Tool",
        columns=_rates_by(TOOL),
        links=[
            links.narrow(UID, "tool", KEPT),
            links.other_board("How this tool runs", runtime.UID, "tool", runtime.KEPT),
            links.explore_traces("Traces of this tool", links.traces_mended(links.CLICKED)),
        ],
    )


def which_model() -> Any:
    """Return the models hit most."""
    return table(
        "Which model",
        "The models with the most new dangling calls in the time shown.",
        label=MODEL,
        head="Model",
        columns=_rates_by(MODEL),
        links=[
            links.narrow(UID, "model", KEPT),
            links.explore_traces("Traces of this model", links.traces_of_model(links.CLICKED)),
        ],
    )


def _rates_by(label: str) -> list[Column]:
    lost = dangling(_RANGE, label)
    asked = requested(_RANGE, label)
    most = f"topk(20, {lost})"  # all columns for the same rows, and never more of them
    return [
        Column(title="Dangling", expr=most),
        Column(
            title="Patch rate",
            expr=f"{lost} / ({asked} > 0) and {most}",
            unit=PERCENT,
            limits=PATCH_LIMITS,
        ),
        Column(title="Requested", expr=f"{asked} and {most}"),
    ]


def which_thread() -> Any:
    """Return the conversations hit most, as the metrics know them."""
    dangling = added(names.THREADS_DANGLING, _RANGE, OF_SERVICE, by=[THREAD])
    return table(
        "Which thread",
        "The conversations with the most new dangling calls in the time shown. A process names "
        "its first 200 (TOOLMEND_THREAD_LIMIT), all others are _OTHER: then the table beside this "
        "one knows more. Narrowed by service alone.",
        label=THREAD,
        head="Thread",
        columns=[Column(title="Dangling", expr=f"topk(10, {dangling} > 0)")],
        links=_of_thread(),
    )


def which_thread_in_logs() -> Any:
    """Return the conversations hit most, as the logs know them."""
    return log_counts(
        "Which thread, from the logs",
        "The conversations with the most mended requests in the time shown, counted in the log "
        "records: no limit on threads. Narrowed by service alone.",
        label=THREAD,
        head="Thread",
        value="Mended requests",
        expr=links.threads_in_logs(),
        links=_of_thread(),
    )


def _of_thread() -> list[Any]:
    return [
        links.explore_traces("Traces of this thread", links.traces_of_thread(links.CLICKED)),
        links.explore_logs(
            "Logs of this thread", links.logs_of(links.MENDED, thread=links.CLICKED)
        ),
    ]
