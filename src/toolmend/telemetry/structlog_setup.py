"""The structlog configuration of an application that asks toolmend to set telemetry up."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

from toolmend.telemetry.setup_warnings import warn
from toolmend.telemetry.structlog_otel import OpenTelemetryProcessor, add_trace_ids

if TYPE_CHECKING:
    from structlog.typing import Processor


def join_structlog() -> None:
    """Make structlog's events reach OpenTelemetry, once.

    Without a configuration, structlog gets one: events of level info and up on standard error, for
    people on a terminal and as JSON elsewhere. An existing configuration keeps everything it has; the
    processor goes before the last one, which renders. Loggers that structlog cached before follow,
    because the list of processors that they hold is changed in place.
    """
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                OpenTelemetryProcessor(),
                add_trace_ids,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                *_renderers(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
        return
    configured = structlog.get_config()["processors"]
    if any(isinstance(processor, OpenTelemetryProcessor) for processor in configured):
        return
    if _exports_through_logging():
        warn(
            "structlog's events already reach OpenTelemetry through the root logger's handler; "
            "no processor was added, so that none is exported twice"
        )
        return
    processors = configured if isinstance(configured, list) else list(configured)
    processors.insert(len(processors) - 1 if processors else 0, OpenTelemetryProcessor())
    structlog.configure(processors=processors)


def _renderers() -> list[Processor]:
    if sys.stderr is not None and sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _exports_through_logging() -> bool:
    """Return whether events go to ``logging`` and a handler there hands them to OpenTelemetry."""
    factory = structlog.get_config()["logger_factory"]
    return isinstance(factory, structlog.stdlib.LoggerFactory) and any(
        type(handler).__module__.startswith("opentelemetry.")
        for handler in logging.getLogger().handlers
    )
