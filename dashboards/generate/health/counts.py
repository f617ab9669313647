"""What the panels of *Tool-call health* count, narrowed by its variables."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.health.scope import OF_MODEL, OF_TOOL
from dashboards.generate.promql import FIRST, added
from toolmend.telemetry import names


def dangling(window: str, *by: str, recurrence: str = FIRST) -> str:
    """Return how many tool calls were found without a result, first seen so unless said otherwise."""
    return added(names.TOOL_CALLS_DANGLING, window, OF_TOOL, recurrence, by=by)


def requested(window: str, *by: str) -> str:
    """Return how many tool calls models asked for."""
    return added(names.TOOL_CALLS_REQUESTED, window, OF_TOOL, by=by)


def calls(window: str, *matchers: str) -> str:
    """Return how many model calls there were."""
    return added(names.MODEL_CALLS, window, OF_MODEL, *matchers)


def traces_and_logs() -> list[Any]:
    """Return links to the calls that were mended."""
    return [
        links.explore_traces("Traces of mended calls", links.traces_mended()),
        links.explore_logs("Logs of mended calls", links.logs_of(links.MENDED)),
    ]
