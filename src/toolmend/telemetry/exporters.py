"""The OpenTelemetry SDK's exporters and providers, as ``OTEL_*`` and the application ask for them.

The SDK reads most variables itself (endpoints, headers, timeouts, compression, certificates, samplers,
batch sizes, intervals, limits). Left to read here are those that choose between classes:
``OTEL_{TRACES,METRICS,LOGS}_EXPORTER`` and ``OTEL_EXPORTER_OTLP[_{TRACES,METRICS,LOGS}]_PROTOCOL``.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from toolmend.errors import MissingExtraError
from toolmend.telemetry.setup_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.resources import Resource

    from toolmend.telemetry.attribute_values import AttributeValue
    from toolmend.telemetry.closing import Provider

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
Protocol: TypeAlias = Literal["http/protobuf", "grpc"]

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")

_OTLP_PACKAGES: Final[Mapping[Protocol, str]] = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
}
_OTLP_EXPORTERS: Final[Mapping[Signal, tuple[str, str]]] = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
}
_CONSOLE_EXPORTERS: Final[Mapping[Signal, tuple[str, str]]] = {
    "traces": ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
    "metrics": ("opentelemetry.sdk.metrics.export", "ConsoleMetricExporter"),
    "logs": ("opentelemetry.sdk._logs.export", "ConsoleLogRecordExporter"),
}
PROTOCOLS: Final = tuple(_OTLP_PACKAGES)


def sdk_is_disabled() -> bool:
    """Return whether ``OTEL_SDK_DISABLED`` switches OpenTelemetry off."""
    return _variable("OTEL_SDK_DISABLED") == "true"


def make_resource(service_name: str | None, attributes: Mapping[str, AttributeValue]) -> Resource:
    """Return what the telemetry is about; arguments win over ``OTEL_SERVICE_NAME`` and the like.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    own = {} if service_name is None else {"service.name": service_name}
    made: Resource = _sdk("opentelemetry.sdk.resources").Resource.create({**attributes, **own})
    return made


def make_exporters(signal: Signal, *, protocol: Protocol | None, endpoint: str | None) -> list[Any]:
    """Return the exporters that ``OTEL_<SIGNAL>_EXPORTER`` names: otlp (the default), console, none.

    An exporter that cannot be made as configured is left out, and a log warning says why.

    Args:
        signal: What they export.
        protocol: The OTLP protocol. Default: that of the variables, else ``http/protobuf``.
        endpoint: The collector's address. Default: that of the variables, else localhost.

    Raises:
        MissingExtraError: The exporter is not installed.
    """
    made = []
    for choice in _variable(f"OTEL_{signal.upper()}_EXPORTER", default="otlp").split(","):
        name = choice.strip()
        try:
            if name == "otlp":
                made.append(_otlp_exporter(signal, protocol or _protocol(signal), endpoint))
            elif name == "console":
                module, class_name = _CONSOLE_EXPORTERS[signal]
                # Standard output may carry a protocol of the application's.
                made.append(getattr(_sdk(module), class_name)(out=sys.stderr))
            elif name != "none":
                warn(
                    "%s are not exported to %r: set OTEL_%s_EXPORTER to otlp, console or none",
                    signal,
                    name,
                    signal.upper(),
                )
        except MissingExtraError:
            raise
        except Exception as error:  # noqa: BLE001 - the guard around our own code
            warn("%s are not exported to %s: %s", signal, name, error)
    return made


def make_provider(signal: Signal, exporters: list[Any], resource: Resource) -> Provider | None:
    """Return the SDK's provider of a signal, or None if it would do nothing or cannot be made.

    It leaves its shutdown to the caller. Spans carry ids and context even without exporters; metrics
    and log records would go nowhere.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    if signal != "traces" and not exporters:
        return None
    make = {"traces": _tracer_provider, "metrics": _meter_provider, "logs": _logger_provider}[
        signal
    ]
    try:
        provider: Provider = make(exporters, {"resource": resource, "shutdown_on_exit": False})
    except MissingExtraError:
        raise
    except Exception as error:  # noqa: BLE001 - the guard around our own code
        warn("%s are not exported: %s", signal, error)
        return None
    return provider


def _tracer_provider(exporters: list[Any], common: dict[str, Any]) -> Any:
    provider = _sdk("opentelemetry.sdk.trace").TracerProvider(**common)
    for exporter in exporters:
        batch = _sdk("opentelemetry.sdk.trace.export").BatchSpanProcessor(exporter)
        provider.add_span_processor(batch)
    return provider


def _meter_provider(exporters: list[Any], common: dict[str, Any]) -> Any:
    reader = _sdk("opentelemetry.sdk.metrics.export").PeriodicExportingMetricReader
    readers = [reader(exporter) for exporter in exporters]
    return _sdk("opentelemetry.sdk.metrics").MeterProvider(metric_readers=readers, **common)


def _logger_provider(exporters: list[Any], common: dict[str, Any]) -> Any:
    provider = _sdk("opentelemetry.sdk._logs").LoggerProvider(**common)
    for exporter in exporters:
        batch = _sdk("opentelemetry.sdk._logs.export").BatchLogRecordProcessor(exporter)
        provider.add_log_record_processor(batch)
    return provider


def _otlp_exporter(signal: Signal, protocol: Protocol, endpoint: str | None) -> Any:
    module, class_name = _OTLP_EXPORTERS[signal]
    exporter = getattr(_sdk(f"{_OTLP_PACKAGES[protocol]}.{module}"), class_name)
    arguments: dict[str, Any] = {}
    if endpoint is not None:
        url = endpoint if "://" in endpoint else f"http://{endpoint}"
        if protocol == "grpc":
            arguments |= {"endpoint": url, "insecure": url.startswith("http://")}
        else:
            arguments |= {"endpoint": f"{url.rstrip('/')}/v1/{signal}"}
    if protocol == "grpc" and _otlp_variable(signal, "COMPRESSION") == "none":
        # The specification's word for no compression; the gRPC exporter refuses it.
        arguments["compression"] = _sdk("grpc").Compression.NoCompression
    return exporter(**arguments)


def _protocol(signal: Signal) -> Protocol:
    asked = _otlp_variable(signal, "PROTOCOL") or "http/protobuf"
    for known in PROTOCOLS:
        if asked == known:
            return known
    warn("OTEL_EXPORTER_OTLP_PROTOCOL %r is not known; %s go out as http/protobuf", asked, signal)
    return "http/protobuf"


def _otlp_variable(signal: Signal, name: str) -> str:
    general = _variable(f"OTEL_EXPORTER_OTLP_{name}")
    return _variable(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", default=general)


def _variable(name: str, *, default: str = "") -> str:
    """Return a choice from the environment; an empty variable counts as unset, as OpenTelemetry says."""
    return os.environ.get(name, "").strip().lower() or default


def _sdk(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError("setup_telemetry", "otlp") from error
