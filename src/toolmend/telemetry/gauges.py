"""Gauges: values that are read when metrics are collected, from whatever lives then."""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.metrics import CallbackOptions, Observation

from toolmend.telemetry import names
from toolmend.telemetry.label_sets import as_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolmend.telemetry.label_sets import LabelSets


class WatchedTool(Protocol):
    """What a gauge reads of a tool.

    Attributes:
        tool_name: name of the tool.
    """

    tool_name: str

    def breaker_state(self) -> str | None:
        """Return the state of its breaker, None when it has none."""
        ...

    def abandoned_calls(self) -> int:
        """Return how many calls were given up and still run."""
        ...


_lock = threading.Lock()
_watched: Final[weakref.WeakSet[WatchedTool]] = weakref.WeakSet()
_WORST_FIRST: Final = ("open", "forced_open", "half_open", "disabled", "closed")


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - the forked process has its own
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def watch_tool(tool: WatchedTool) -> None:
    """Show the state of a tool for as long as it lives."""
    with _lock:
        _watched.add(tool)


def _tools() -> list[WatchedTool]:
    with _lock:
        return list(_watched)


def reader(
    metric: names.Metric, labels: LabelSets
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """Return the function that an SDK calls for the values of a gauge."""
    read = {
        names.BREAKER_STATE.name: _breaker_states,
        names.TOOL_CALLS_ABANDONED.name: _abandoned_calls,
    }[metric.name]

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, labels.admit(metric, *values))
            for values, value in read(labels).items()
        ]

    return observe


def _shown_name(tool: WatchedTool, labels: LabelSets) -> str:
    """Return the name that a tool is shown under; past the limit of names it is shared."""
    return labels.bounded(names.TOOL, as_label(tool.tool_name))


def _breaker_states(labels: LabelSets) -> dict[tuple[str, ...], int]:
    """Return 1 for the state of each tool, 0 for the others; tools of one name show their worst."""
    states: dict[str, set[str]] = defaultdict(set)
    for tool in _tools():
        state = tool.breaker_state()
        if state is not None:
            states[_shown_name(tool, labels)].add(state)
    found: dict[tuple[str, ...], int] = {}
    for name, shown in states.items():
        worst = next(state for state in _WORST_FIRST if state in shown)
        for state in names.BREAKER_STATES:
            found[name, state] = int(state == worst)
    return found


def _abandoned_calls(labels: LabelSets) -> dict[tuple[str, ...], int]:
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for tool in _tools():
        counts[_shown_name(tool, labels),] += tool.abandoned_calls()
    return counts
