"""A tally: the counters of toolmend's telemetry, read as they are made and passed on to the real ones."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import metrics

from toolmend.telemetry.names import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One addition to a counter."""

    metric: str
    attributes: Mapping[str, str]
    amount: int


class Tally(metrics.MeterProvider):
    """A meter provider that adds up what is counted, and hands everything on to another.

    It needs no SDK, so that a closing table always shows what the telemetry counted.

    Args:
        provider: where everything goes on to.
    """

    def __init__(self, provider: metrics.MeterProvider) -> None:
        self._provider = provider
        self._sums: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
        self._lock = threading.Lock()

    def get_meter(self, name: str, *args: Any, **kwargs: Any) -> metrics.Meter:
        """Return a meter whose counters are added up."""
        return _Meter(self, name, self._provider.get_meter(name, *args, **kwargs))

    def note(self, metric: str, amount: int, attributes: Mapping[str, str]) -> None:
        """Add to a sum, and tell whoever listens."""
        with self._lock:
            self._sums[metric, frozenset(attributes.items())] += amount
        heard = _heard.get()
        if heard is not None and amount:
            heard.append(Counted(metric=metric, attributes=attributes, amount=amount))

    def total(self, metric: Metric, where: Mapping[str, str] | None = None) -> int:
        """Return the sum of a counter over all series that have some attribute values."""
        wanted = frozenset((where or {}).items())
        with self._lock:
            return sum(
                amount
                for (name, attributes), amount in self._sums.items()
                if name == metric.name and wanted <= attributes
            )

    def by(
        self, metric: Metric, attribute: str, where: Mapping[str, str] | None = None
    ) -> dict[str, int]:
        """Return the sums of a counter, not zero, by the values of one attribute, in their order."""
        wanted = frozenset((where or {}).items())
        sums: Counter[str] = Counter()
        with self._lock:
            for (name, attributes), amount in self._sums.items():
                if name == metric.name and wanted <= attributes and amount:
                    sums[dict(attributes)[attribute]] += amount
        return dict(sorted(sums.items()))


_heard: Final[ContextVar[list[Counted] | None]] = ContextVar("toolmend_demo_heard", default=None)


@contextmanager
def listening() -> Iterator[list[Counted]]:
    """Give a list that gets whatever the work at hand adds to the counters."""
    heard: list[Counted] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


class _Meter(metrics.NoOpMeter):
    def __init__(self, tally: Tally, name: str, meter: metrics.Meter) -> None:
        super().__init__(name)
        self._tally = tally
        self._meter = meter

    def create_counter(self, name: str, unit: str = "", description: str = "") -> metrics.Counter:
        counter = self._meter.create_counter(name, unit=unit, description=description)
        return _Counter(self._tally, name, counter)

    def create_observable_gauge(
        self, name: str, *args: Any, **kwargs: Any
    ) -> metrics.ObservableGauge:
        return self._meter.create_observable_gauge(name, *args, **kwargs)

    def create_histogram(self, name: str, *args: Any, **kwargs: Any) -> metrics.Histogram:
        return self._meter.create_histogram(name, *args, **kwargs)


class _Counter(metrics.Counter):
    def __init__(self, tally: Tally, name: str, counter: metrics.Counter) -> None:
        self._tally = tally
        self._name = name
        self._counter = counter

    def add(self, amount: float, attributes: Any = None, *args: Any, **kwargs: Any) -> None:
        self._counter.add(amount, attributes, *args, **kwargs)
        self._tally.note(self._name, int(amount), attributes or {})
