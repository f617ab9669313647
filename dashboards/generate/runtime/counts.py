"""What the panels of *Tool runtime* count, narrowed by its variables."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.fields import Limits
from dashboards.generate.promql import FAILING, SETTLED, added
from dashboards.generate.runtime.scope import OF_TOOL
from toolmend.telemetry import names

ERROR_LIMITS = Limits(orange=0.05, red=0.2)

RANGE = "$__range"
STEP = "5m"
"""What is counted per bar or point is counted over this at least: rare events make poor rates."""


def executed(window: str, *by: str) -> str:
    """Return how many calls were run."""
    return added(names.TOOL_CALLS_EXECUTED, window, OF_TOOL, by=by)


def settled(window: str, *by: str) -> str:
    """Return how many calls came to an end of their own: all but the cancelled ones."""
    return added(names.TOOL_CALLS_EXECUTED, window, OF_TOOL, SETTLED, by=by)


def failing(window: str, *by: str) -> str:
    """Return how many calls failed, were given up, or were answered by a fallback."""
    return added(names.TOOL_CALLS_EXECUTED, window, OF_TOOL, FAILING, by=by)


def failing_or_none(window: str, *by: str) -> str:
    """Return the same, with a 0 for what was run and never failed: it has no such series."""
    return f"({failing(window, *by)} or 0 * {executed(window, *by)})"


def traces_and_logs() -> list[Any]:
    """Return links to the calls that failed."""
    return [
        links.explore_traces("Traces of failed executions", links.traces_failed()),
        links.explore_logs(
            "Logs of failing tools", links.logs_of(links.TOOL_TROUBLE, tool=links.TOOLS)
        ),
    ]
