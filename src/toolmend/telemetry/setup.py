"""OpenTelemetry for applications that have none: one call, and one handle to flush and stop it."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, cast

from opentelemetry import metrics, trace
from typing_extensions import Self

from toolmend.errors import PolicyError
from toolmend.telemetry.attribute_values import AttributeValue
from toolmend.telemetry.closing import Closing, Provider
from toolmend.telemetry.exporters import (
    PROTOCOLS,
    SIGNALS,
    Protocol,
    Signal,
    make_exporters,
    make_provider,
    make_resource,
    sdk_is_disabled,
)
from toolmend.telemetry.setup_warnings import warn
from toolmend.telemetry.structlog_otel import logger_provider_is_set, set_logger_provider
from toolmend.telemetry.structlog_setup import join_structlog

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

_EXIT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What ``setup_telemetry`` has set up; usable as a context manager that shuts it down.

    Attributes:
        service_name: The name the telemetry goes out under; None when nothing does.
        signals: What is exported: any of ``traces``, ``metrics``, ``logs``.
    """

    service_name: str | None
    signals: tuple[Signal, ...]
    _closing: Closing = field(repr=False)

    def force_flush(self, timeout_seconds: float = 5.0) -> bool:
        """Export what is pending now.

        Returns:
            Whether every signal was done in time. The SDK counts an export the collector refused as
            done, and logs it.
        """
        return self._closing.force_flush(timeout_seconds)

    def shutdown(self, timeout_seconds: float = _EXIT_SECONDS) -> bool:
        """Export what is pending and stop; runs by itself when the process ends.

        OpenTelemetry's global providers can be set once in a process, so this is final.

        Returns:
            Whether every signal was done in time. What was not goes on in the background, and is lost
            when the process ends.
        """
        return self._closing.shutdown(timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.shutdown()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    service_name: str | None
    resource_attributes: Mapping[str, AttributeValue]
    endpoint: str | None
    protocol: Protocol | None
    logs: bool


class _Once:
    """The telemetry of this process."""

    lock: Final = threading.Lock()
    made: tuple[_Options, Telemetry] | None = None
    warned: bool = False


def setup_telemetry(
    service_name: str | None = None,
    *,
    resource_attributes: Mapping[str, AttributeValue] | None = None,
    endpoint: str | None = None,
    protocol: Protocol | None = None,
    logs: bool = True,
) -> Telemetry:
    """Set OpenTelemetry up in an application that has not: traces, metrics and logs over OTLP.

    For the application to call, once, at its start. The variables of OpenTelemetry (``OTEL_*``) say
    where telemetry goes and how; arguments win over them. Providers that the application has set
    already stay, and only the missing ones are added. structlog is joined to OpenTelemetry: it gets a
    configuration (standard error, level info) if it has none, else one more processor.

    Nothing here blocks a call that emits telemetry, and a collector that does not answer holds the end
    of the process for three seconds at most. A second call returns the handle of the first.

    Args:
        service_name: Default: ``OTEL_SERVICE_NAME``.
        resource_attributes: What else is known of the service; added to ``OTEL_RESOURCE_ATTRIBUTES``.
        endpoint: The collector's base address, such as ``http://localhost:4318``, for all signals;
            ``/v1/traces`` and the like are appended for HTTP. Default:
            ``OTEL_EXPORTER_OTLP_ENDPOINT`` or the variable of each signal.
        protocol: ``http/protobuf`` or ``grpc``. Default: ``OTEL_EXPORTER_OTLP_PROTOCOL`` or the
            variable of each signal, else ``http/protobuf``.
        logs: Whether to export log events and to touch structlog.

    Raises:
        MissingExtraError: The SDK or the exporter is not installed (``pip install 'toolmend[otlp]'``).
        PolicyError: ``protocol`` is neither of the two.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise PolicyError(f"protocol is {protocol!r}; give one of {', '.join(PROTOCOLS)}")
    options = _Options(
        service_name=service_name,
        resource_attributes=MappingProxyType(dict(resource_attributes or {})),
        endpoint=endpoint,
        protocol=protocol,
        logs=logs,
    )
    with _Once.lock:
        if _Once.made is None:
            telemetry = _set_up(options)
            _Once.made = (options, telemetry)
            atexit.register(_at_exit, telemetry)
        elif _Once.made[0] != options and not _Once.warned:
            _Once.warned = True
            warn("setup_telemetry was called before with other options; those stay in force")
        in_force, telemetry = _Once.made
    if in_force.logs:
        join_structlog()
    return telemetry


def _set_up(options: _Options) -> Telemetry:
    if sdk_is_disabled():
        return Telemetry(service_name=None, signals=(), _closing=Closing(()))
    wanted = SIGNALS if options.logs else SIGNALS[:2]
    taken = [signal for signal in wanted if _GLOBALS[signal].is_set()]
    if taken:
        warn(
            "OpenTelemetry is set up already for %s; setup_telemetry leaves that as it is",
            ", ".join(taken),
        )
    resource = make_resource(options.service_name, options.resource_attributes)
    # All exporters before the first provider: a missing extra must leave nothing half set up.
    exporters = {
        signal: make_exporters(signal, protocol=options.protocol, endpoint=options.endpoint)
        for signal in wanted
        if signal not in taken
    }
    providers = {
        signal: provider
        for signal, made in exporters.items()
        if (provider := make_provider(signal, made, resource)) is not None
    }
    for signal, provider in providers.items():
        _GLOBALS[signal].set(provider)
    return Telemetry(
        service_name=str(resource.attributes.get("service.name")) if providers else None,
        signals=tuple(signal for signal in providers if exporters[signal]),
        _closing=Closing(providers.values()),
    )


def _at_exit(telemetry: Telemetry) -> None:
    # Whoever interrupts the last three seconds wants to be gone.
    with contextlib.suppress(KeyboardInterrupt):
        telemetry.shutdown(_EXIT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Global:
    is_set: Callable[[], bool]
    set: Callable[[Provider], None]


def _is_real(provider: object) -> bool:
    # The stand-ins of the API have no public class in common.
    return "Proxy" not in type(provider).__name__


_GLOBALS: Final[Mapping[Signal, _Global]] = {
    "traces": _Global(
        is_set=lambda: _is_real(trace.get_tracer_provider()),
        set=lambda provider: trace.set_tracer_provider(cast("trace.TracerProvider", provider)),
    ),
    "metrics": _Global(
        is_set=lambda: _is_real(metrics.get_meter_provider()),
        set=lambda provider: metrics.set_meter_provider(cast("metrics.MeterProvider", provider)),
    ),
    "logs": _Global(
        is_set=logger_provider_is_set,
        set=lambda provider: set_logger_provider(cast("LoggerProvider", provider)),
    ),
}
