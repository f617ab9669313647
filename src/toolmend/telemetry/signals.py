"""Signals: the tracer and the instruments, bound to whatever providers the process has now."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from opentelemetry import context, metrics, trace

from toolmend.settings import settings
from toolmend.telemetry import names
from toolmend.telemetry.label_sets import LabelSets
from toolmend.telemetry.sightings import Sightings

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

# The plain key that every version of the instrumentation package sets.
_SUPPRESS: Final = "suppress_instrumentation"


def package_version() -> str:
    """Return the version of this library, empty in a checkout that was never installed."""
    try:
        return version("toolmend")
    except PackageNotFoundError:  # pragma: no cover - only in a tree without metadata
        return ""


class Signals:
    """Tracer, instruments and the memory that goes with them.

    Args:
        tracer_provider: where spans go.
        meter_provider: where metrics go.
        thread_limit: how many threads get a series of their own.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider,
        meter_provider: metrics.MeterProvider,
        thread_limit: int,
    ) -> None:
        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self.tracer = tracer_provider.get_tracer(names.SCOPE, package_version())
        meter = meter_provider.get_meter(names.SCOPE, package_version())
        self._counters = {
            metric.name: meter.create_counter(
                metric.name, unit=metric.unit, description=metric.description
            )
            for metric in names.METRICS
            if metric.kind == "counter"
        }
        self._histograms = {
            metric.name: meter.create_histogram(
                metric.name,
                unit=metric.unit,
                description=metric.description,
                explicit_bucket_boundaries_advisory=metric.buckets,
            )
            for metric in names.METRICS
            if metric.kind == "histogram"
        }
        self._labels = LabelSets(thread_limit)
        self._opened = Sightings()
        self.requested = Sightings()
        self.dangling = Sightings()
        self.reported = Sightings()
        for where in names.FAULT_PLACES:
            self.add(names.FAULTS, where, amount=0)

    def add(self, metric: names.Metric, *values: str, amount: int = 1) -> None:
        """Count, under labels given in the order of the metric's attributes."""
        self._counters[metric.name].add(amount, self._labels.admit(metric, *values))

    def record(self, metric: names.Metric, value: float, *values: str) -> None:
        """Record a value, under labels given in the order of the metric's attributes."""
        self._histograms[metric.name].record(value, self._labels.admit(metric, *values))

    def open(self, key: Hashable) -> bool:
        """Tell whether the series behind a key have to be opened now.

        A counter whose first sample is 1 never shows an increase, so series start at 0.
        """
        return self._opened.is_first(key)


_lock: Final = threading.Lock()
_bound: Signals | None = None
_override: Signals | None = None


def signals() -> Signals:
    """Return the signals bound to the process's providers, made anew when those were set meanwhile."""
    global _bound  # noqa: PLW0603 - one per process
    if _override is not None:
        return _override
    tracer_provider = trace.get_tracer_provider()
    meter_provider = metrics.get_meter_provider()
    bound = _bound
    if (
        bound is None
        or bound.meter_provider is not meter_provider
        or bound.tracer_provider is not tracer_provider
    ):
        with _lock:
            bound = _bound = Signals(tracer_provider, meter_provider, settings().thread_limit)
    return bound


@contextmanager
def using(
    *,
    tracer_provider: trace.TracerProvider,
    meter_provider: metrics.MeterProvider,
    thread_limit: int = 200,
) -> Iterator[Signals]:
    """Send everything to other providers for a while, with a fresh memory. For tests."""
    global _override  # noqa: PLW0603 - one per process
    previous = _override
    _override = Signals(tracer_provider, meter_provider, thread_limit)
    try:
        yield _override
    finally:
        _override = previous


def is_suppressed() -> bool:
    """Tell whether telemetry is switched off for the work at hand; repair goes on all the same."""
    return bool(context.get_value(_SUPPRESS))
