"""The export of a demo: where its telemetry goes, and whether it got there."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import structlog

from toolmend.telemetry.setup import Telemetry, setup_telemetry

SERVICE_NAME: Final = "toolmend-demo"
_DEFAULT_PORT: Final = {"http": 80, "https": 443}
_GRPC_PORT: Final = 4317
_CONNECT_SECONDS: Final = 1.0
_CLOSING_SECONDS: Final = 5.0
_METRIC_INTERVAL_MILLIS: Final = "2000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """The address of a collector."""

    url: str
    host: str
    port: int

    def is_there(self) -> bool:
        """Tell whether anything takes a connection."""
        try:
            socket.create_connection((self.host, self.port), _CONNECT_SECONDS).close()
        except OSError:
            return False
        return True


def parse_collector(url: str) -> Collector:
    """Read the address of a collector.

    Raises:
        ValueError: it is none; the message says what one looks like.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORT.get(parts.scheme)
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _DEFAULT_PORT or not parts.hostname or port is None:
        raise ValueError(f"--otlp takes an address such as http://127.0.0.1:4318, not {url!r}")
    return Collector(url=url, host=parts.hostname, port=port)


class _Complaints(logging.Handler):
    """Keeps what the exporters complain about, off the screen."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - one is as good as another
        self.count += 1


@dataclass(slots=True)
class Export:
    """Telemetry on its way to a collector."""

    collector: Collector
    _telemetry: Telemetry
    _complaints: _Complaints = field(default_factory=_Complaints)

    @classmethod
    def start(cls, collector: Collector) -> Export:
        """Set telemetry up, with everything it might print kept off the screen.

        Raises:
            MissingExtraError: the SDK or the exporter is not installed.
        """
        complaints = _Complaints()
        for name in ("opentelemetry", "urllib3"):
            logger = logging.getLogger(name)
            logger.addHandler(complaints)
            logger.propagate = False
        # A chart wants more than one point per demo.
        os.environ.setdefault("OTEL_METRIC_EXPORT_INTERVAL", _METRIC_INTERVAL_MILLIS)
        structlog.configure(
            processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.ReturnLoggerFactory(),
        )
        telemetry = setup_telemetry(SERVICE_NAME, endpoint=collector.url)
        return cls(collector, telemetry, complaints)

    def finish(self) -> str:
        """Send what is left, stop, and say in one line how it went."""
        before = self._complaints.count
        is_done = self._telemetry.shutdown(_CLOSING_SECONDS if self._has_gone_well else 1.0)
        url = self.collector.url
        if not self._telemetry.signals:
            return "Nothing was exported: the OTEL_* variables of this environment switch it off."
        if not is_done or self._complaints.count > before:
            hint = " (4317 speaks gRPC: try 4318)" if self.collector.port == _GRPC_PORT else ""
            return f"The telemetry did not get to {url}: no collector took it{hint}."
        signals = " and ".join(", ".join(self._telemetry.signals).rsplit(", ", 1))
        service = self._telemetry.service_name
        lost = "" if self._has_gone_well else ", but not all of it at the first try"
        return f"{signals.capitalize()} went to {url} as service {service}{lost}."

    @property
    def _has_gone_well(self) -> bool:
        return not self._complaints.count
