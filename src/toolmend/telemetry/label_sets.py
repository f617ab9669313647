"""Label sets: bounded, so that the SDK never folds series into an overflow point that loses every label.

The SDK folds whatever comes past 2,000 attribute sets of one instrument. Tool names come from model
output and model names from callers, so both are cut here, long before that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from toolmend.telemetry import names
from toolmend.telemetry.attribute_values import text

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SETS: Final = 1_000
_FEWER_SETS: Final = {names.TOOL_CALLS_REQUESTED.name: MAX_SETS // 2 - 1}
"""Dangling calls come twice, as first and as repeat: so both sides of the patch rate fold alike."""
MAX_LABEL_LENGTH: Final = 200
LIMITS: Final = {names.MODEL: 50, names.PROVIDER: 20, names.TOOL: 100}
_GIVEN_UP: Final = (names.TOOL, names.MODEL, names.PROVIDER)
"""Which label a set past the limit gives up, one after the other."""

Labels = dict[str, str]


class Values:
    """Values that one label has shown: the first ones keep their name, later ones share one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def admit(self, value: str) -> str:
        """Return the value itself, or the shared name when there are too many."""
        known = self._known.get(value)
        if known is not None:
            return known
        with self._lock:
            if value in self._known:
                return self._known[value]
            if len(self._known) >= self._limit:
                return names.OTHER
            self._known[value] = value
            return value

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()


class LabelSets:
    """The label sets of all instruments in one process."""

    def __init__(self, thread_limit: int) -> None:
        limits = {**LIMITS, names.THREAD: thread_limit}
        self._values = {label: Values(limit) for label, limit in limits.items()}
        self._closed = {
            names.OUTCOME: frozenset(names.OUTCOMES + names.TOOL_OUTCOMES),
            names.ERROR_TYPE: frozenset(names.ERROR_TYPES) | {""},
            names.RECURRENCE: frozenset(names.RECURRENCES),
            names.WHERE: frozenset(names.FAULT_PLACES),
        }
        self._sets: dict[str, dict[tuple[str, ...], Labels]] = {}
        self._lock = threading.Lock()

    def admit(self, metric: names.Metric, *values: str) -> Labels:
        """Return the labels to count under, in the order of the metric's attributes.

        Args:
            metric: the instrument.
            values: one value per attribute of the metric; an empty one is left out.
        """
        bounded = tuple(
            self.bounded(label, value)
            for label, value in zip(metric.attributes, values, strict=True)
        )
        known = self._sets.setdefault(metric.name, {})
        found = known.get(bounded)
        if found is not None:
            return found
        limit = _FEWER_SETS.get(metric.name, MAX_SETS)
        with self._lock:
            for candidate in _candidates(metric.attributes, bounded):
                if candidate in known:
                    return known[candidate]
                if len(known) < limit:
                    bounded = candidate
                    break
            else:
                # All open labels are given up: what is left is closed, so this adds a handful.
                bounded = candidate
            pairs = zip(metric.attributes, bounded, strict=True)
            labels = {label: value for label, value in pairs if value}
            known[bounded] = labels
            return labels

    def renew_locks(self) -> None:
        """Replace locks that another thread may have held when this process was forked."""
        self._lock = threading.Lock()
        for values in self._values.values():
            values.renew_lock()

    def bounded(self, label: str, value: str) -> str:
        """Return a value as a label shows it: itself, or the shared name when there are too many."""
        values = self._values.get(label)
        if values is not None:
            return values.admit(value)
        closed = self._closed.get(label)
        return value if closed is None or value in closed else names.OTHER


def _candidates(attributes: Iterable[str], values: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """Yield a set, then the same with one more label given up each time."""
    yield values
    order = list(attributes)
    current = list(values)
    for label in _GIVEN_UP:
        if label in order:
            current[order.index(label)] = names.OTHER
            yield tuple(current)


def as_label(value: object, default: str = names.UNKNOWN) -> str:
    """Return a value as a label: text that can be exported and is not too long, else the default."""
    return shown(value) or default


def shown(value: object) -> str | None:
    """Return a text as telemetry shows it: encodable, and cut where it gets absurd; None for no text."""
    if not isinstance(value, str) or not value:
        return None
    return text(value[:MAX_LABEL_LENGTH])
