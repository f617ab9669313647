"""What a test sees of spans, metrics and log events."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolmend.telemetry import names, signals

if TYPE_CHECKING:
    from collections.abc import Iterator


SHORT = {attribute: short for short, attribute in names.LOG_KEYS.items()}


@dataclass
class Captured:
    spans_exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    logs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.spans_exporter.get_finished_spans()

    def points(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the series of an instrument: sorted (short label, value) pairs -> value."""
        data = self.reader.get_metrics_data()
        found: dict[tuple[tuple[str, str], ...], float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "toolmend"
                for metric in scope.metrics:
                    if metric.name != name:
                        continue
                    for point in metric.data.data_points:
                        labels = tuple(
                            sorted(
                                (SHORT.get(key, key.rpartition(".")[2]), value)
                                for key, value in point.attributes.items()
                            )
                        )
                        found[labels] = getattr(point, "value", getattr(point, "count", None))
        return found

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over the series that carry these labels (short names)."""
        wanted = set(labels.items())
        return sum(value for series, value in self.points(name).items() if wanted <= set(series))

    def non_zero(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        return {series: value for series, value in self.points(name).items() if value}


@contextmanager
def captured(thread_limit: int = 200) -> Iterator[Captured]:
    exporter = InMemorySpanExporter()
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    meter_provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    capture = Captured(exporter, reader)

    def collect(_: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
        capture.logs.append({"level": method, **event})
        raise structlog.DropEvent

    structlog.configure(processors=[collect], cache_logger_on_first_use=False)
    try:
        with signals.using(
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            thread_limit=thread_limit,
        ):
            yield capture
    finally:
        structlog.reset_defaults()
        tracer_provider.shutdown()
        meter_provider.shutdown()
