"""Signals: the tracer and the instruments, bound to whatever providers the process has now."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from opentelemetry import context, metrics, trace

from toolmend._call_ends import call_ends
from toolmend.settings import settings
from toolmend.telemetry import names
from toolmend.telemetry.gauges import reader
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


class Memory:
    """What is remembered for as long as the process lives, whatever providers come and go.

    Args:
        thread_limit: how many threads get a series of their own.
    """

    def __init__(self, thread_limit: int) -> None:
        self.labels = LabelSets(thread_limit)
        self.requested = Sightings()
        self.dangling = Sightings()
        self.reported = Sightings()

    def renew_locks(self) -> None:
        """Replace locks that another thread may have held when this process was forked."""
        for part in (self.requested, self.dangling, self.reported):
            part.renew_lock()
        self.labels.renew_locks()


class Instruments:
    """The instruments of one meter provider, and which of their series are open.

    Args:
        meter_provider: where metrics go.
        labels: the label sets of the process.
    """

    def __init__(self, meter_provider: metrics.MeterProvider, labels: LabelSets) -> None:
        self.meter_provider = meter_provider
        meter = meter_provider.get_meter(names.SCOPE, package_version())
        for metric in names.METRICS:
            if metric.kind == "gauge":
                meter.create_observable_gauge(
                    metric.name,
                    [reader(metric, labels)],
                    unit=metric.unit,
                    description=metric.description,
                )
        self.counters = {
            metric.name: meter.create_counter(
                metric.name, unit=metric.unit, description=metric.description
            )
            for metric in names.METRICS
            if metric.kind == "counter"
        }
        self.histograms = {
            metric.name: meter.create_histogram(
                metric.name,
                unit=metric.unit,
                description=metric.description,
                explicit_bucket_boundaries_advisory=metric.buckets,
            )
            for metric in names.METRICS
            if metric.kind == "histogram"
        }
        self.opened = Sightings()


class Signals:
    """Tracer and instruments, with the memory of the process.

    Args:
        tracer_provider: where spans go.
        instruments: what is counted with.
        memory: what was seen before.
    """

    def __init__(
        self, tracer_provider: trace.TracerProvider, instruments: Instruments, memory: Memory
    ) -> None:
        self.tracer_provider = tracer_provider
        self.tracer = tracer_provider.get_tracer(names.SCOPE, package_version())
        self.instruments = instruments
        self.memory = memory
        for where in names.FAULT_PLACES:
            self.add(names.FAULTS, where, amount=0)

    def add(self, metric: names.Metric, *values: str, amount: int = 1) -> None:
        """Count, under labels given in the order of the metric's attributes."""
        counter = self.instruments.counters[metric.name]
        counter.add(amount, self.memory.labels.admit(metric, *values))

    def record(self, metric: names.Metric, value: float, *values: str) -> None:
        """Record a value, under labels given in the order of the metric's attributes."""
        histogram = self.instruments.histograms[metric.name]
        histogram.record(value, self.memory.labels.admit(metric, *values))

    def admitted(self, metric: names.Metric, *values: str) -> tuple[str, ...]:
        """Return the values that labels are counted under, which differ past the bounds."""
        return tuple(self.memory.labels.admit(metric, *values).values())

    def open(self, key: Hashable) -> bool:
        """Tell whether the series behind a key have to be opened now.

        A counter whose first sample is 1 never shows an increase, so series start at 0.
        """
        return self.instruments.opened.is_first(key)

    def is_of(
        self, tracer_provider: trace.TracerProvider, meter_provider: metrics.MeterProvider
    ) -> bool:
        """Tell whether these signals go to these providers."""
        return (
            self.tracer_provider is tracer_provider
            and self.instruments.meter_provider is meter_provider
        )

    def renew_locks(self) -> None:
        """Replace locks that another thread may have held when this process was forked."""
        self.instruments.opened.renew_lock()
        self.memory.renew_locks()


class _Process:
    """What one process has of this."""

    lock = threading.Lock()
    bound: Signals | None = None
    override: Signals | None = None


def signals() -> Signals:
    """Return the signals bound to the process's providers, made anew when those were set meanwhile."""
    if _Process.override is not None:
        return _Process.override
    tracer_provider = trace.get_tracer_provider()
    meter_provider = metrics.get_meter_provider()
    bound = _Process.bound
    if bound is not None and bound.is_of(tracer_provider, meter_provider):
        return bound
    with _Process.lock:
        bound = _Process.bound
        if bound is None:
            memory = Memory(settings().thread_limit)
            bound = Signals(tracer_provider, Instruments(meter_provider, memory.labels), memory)
        elif not bound.is_of(tracer_provider, meter_provider):
            instruments = bound.instruments
            if instruments.meter_provider is not meter_provider:
                instruments = Instruments(meter_provider, bound.memory.labels)
            bound = Signals(tracer_provider, instruments, bound.memory)
        _Process.bound = bound
        return bound


def _renew_locks() -> None:
    _Process.lock = threading.Lock()
    if _Process.bound is not None:
        _Process.bound.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


@contextmanager
def using(
    *,
    tracer_provider: trace.TracerProvider,
    meter_provider: metrics.MeterProvider,
    thread_limit: int = 200,
) -> Iterator[Signals]:
    """Send everything to other providers for a while, with a fresh memory. For tests."""
    previous = _Process.override
    memory = Memory(thread_limit)
    made = Signals(tracer_provider, Instruments(meter_provider, memory.labels), memory)
    _Process.override = made
    call_ends.clear()
    try:
        yield made
    finally:
        _Process.override = previous


@contextmanager
def suppressed() -> Iterator[None]:
    """Switch telemetry off for the work at hand, as an SDK does around its own exports."""
    token = context.attach(context.set_value(_SUPPRESS, True))
    try:
        yield
    finally:
        context.detach(token)


def is_suppressed() -> bool:
    """Tell whether telemetry is switched off for the work at hand; repair goes on all the same."""
    return bool(context.get_value(_SUPPRESS))
