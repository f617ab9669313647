"""structlog processors that join log events to OpenTelemetry: its Logs API and its trace ids.

This is the only module that imports ``opentelemetry._logs``, which is not stable yet. Where that API
is missing or has changed its shape, events are not exported; a processor never raises.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
import traceback
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context, trace

from toolmend.telemetry import names
from toolmend.telemetry.attribute_values import attributes_of, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context
    from structlog.typing import EventDict

    from toolmend.telemetry.attribute_values import AttributeValue


def _log_api() -> Any:
    try:
        return import_module("opentelemetry._logs")
    except ImportError:
        return None


_API: Final = _log_api()
_SEVERITIES: Final = {
    "debug": ("DEBUG", 5),
    "info": ("INFO", 9),
    "warn": ("WARN", 13),
    "warning": ("WARN", 13),
    "error": ("ERROR", 17),
    "exception": ("ERROR", 17),
    "critical": ("FATAL", 21),
    "fatal": ("FATAL", 21),
}
# What the record has fields of its own for, and what only a renderer understands.
_NOT_ATTRIBUTES: Final = frozenset(
    {
        "event",
        "exc_info",
        "exception",
        "level",
        "logger",
        "positional_args",
        "stack_info",
        "timestamp",
    }
)
_TRACE_KEYS: Final = frozenset({"trace_id", "span_id"})
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")
_EVENT_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,127}")


def add_trace_ids(_logger: object, _method: str, event_dict: EventDict) -> EventDict:
    """Add ``trace_id`` and ``span_id`` of the current span, in hex, to an event that names none."""
    span_context = trace.get_current_span().get_span_context()
    if span_context.is_valid and not _TRACE_KEYS & event_dict.keys():
        event_dict["trace_id"] = trace.format_trace_id(span_context.trace_id)
        event_dict["span_id"] = trace.format_span_id(span_context.span_id)
    return event_dict


class OpenTelemetryProcessor:
    """Hands each event to the OpenTelemetry Logs API and passes it on unchanged.

    Put it anywhere before the renderer. toolmend's own events go to the scope ``toolmend``, and their
    short keys (``model``, ``thread``) become the attribute names of the telemetry contract. Events of
    the application go to a scope named as their logger and keep their keys. A record belongs to the
    trace that its event names in ``trace_id`` and ``span_id``, else to the current span.

    Do not combine it with an OpenTelemetry handler on the root logger that sees the same events: each
    would be exported twice.

    Args:
        logger_provider: Where records go. Default: the global provider, also one that is set later.
    """

    def __init__(self, *, logger_provider: LoggerProvider | None = None) -> None:
        @lru_cache(maxsize=128)
        def logger_of(scope: str) -> Logger:
            own_version = _package_version() if scope == names.SCOPE else None
            found: Logger = _API.get_logger(scope, own_version, logger_provider=logger_provider)
            return found

        self._logger_of: Callable[[str], Logger] = logger_of

    def __call__(self, logger: object, method: str, event_dict: EventDict) -> EventDict:
        """Export the event, whatever it holds, and return the very same mapping."""
        # Values may be anything, and the API may have changed: logging goes on.
        with contextlib.suppress(Exception):
            if _API is not None and not context.get_value("suppress_instrumentation"):
                self._emit(logger, method, event_dict)
        return event_dict

    def _emit(self, logger: object, method: str, event_dict: EventDict) -> None:
        event = text(event_dict.get("event", ""))
        event_name = event if _EVENT_NAME.fullmatch(event) else None
        own = event in names.LOG_EVENTS
        level = text(event_dict.get("level", method)).lower()
        severity_text, number = _SEVERITIES.get(level, _SEVERITIES["info"])
        severity_number = _API.SeverityNumber(number)
        otel_logger = self._logger_of(names.SCOPE if own else _scope(logger, event_dict))
        # Older releases of the API cannot be asked; there every record is made.
        enabled = getattr(otel_logger, "enabled", None)
        if enabled and not enabled(severity_number=severity_number, event_name=event_name):
            return
        named_context = _context_named_by(event_dict)
        attributes: dict[str, AttributeValue] = {}
        attributes.update(_exception_attributes(event_dict.get("exc_info"), own=own))
        for key, value in event_dict.items():
            if key in _NOT_ATTRIBUTES or key.startswith("_"):
                continue
            if key in _TRACE_KEYS and named_context is not None:
                continue
            attributes.update(attributes_of(names.LOG_KEYS.get(key, key) if own else key, value))
        if event_name is not None:
            attributes[names.EVENT_NAME] = event_name
        otel_logger.emit(
            timestamp=time.time_ns(),
            context=named_context,
            severity_number=severity_number,
            severity_text=severity_text,
            body=event,
            event_name=event_name,
            attributes=attributes,
        )


def logger_provider_is_set() -> bool:
    """Return whether the application has a global provider for log records already."""
    return _API is not None and "Proxy" not in type(_API.get_logger_provider()).__name__


def set_logger_provider(provider: LoggerProvider) -> None:
    """Make ``provider`` the global one for log records."""
    _API.set_logger_provider(provider)


def _exception_attributes(exc_info: object, *, own: bool) -> Iterator[tuple[str, str]]:
    error = _exception(exc_info)
    if error is None:
        return
    yield names.EXCEPTION_TYPE, type(error).__qualname__
    # The message of an error inside toolmend may quote a message of the conversation.
    if not own:
        yield names.EXCEPTION_MESSAGE, text(error)
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        yield names.EXCEPTION_STACKTRACE, text("".join(lines))


def _exception(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1] if len(exc_info) == 3 else None  # noqa: PLR2004
    elif exc_info and not isinstance(exc_info, BaseException):
        exc_info = sys.exc_info()[1]
    return exc_info if isinstance(exc_info, BaseException) else None


def _context_named_by(event_dict: EventDict) -> Context | None:
    """Return a context of the trace that the event names, or None to take the current one."""
    trace_id, span_id = event_dict.get("trace_id"), event_dict.get("span_id")
    if not (isinstance(trace_id, str) and isinstance(span_id, str)):
        return None
    if not (_TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)):
        return None
    span_context = trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=False,
        trace_flags=trace.get_current_span().get_span_context().trace_flags,
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(span_context))


def _scope(logger: object, event_dict: EventDict) -> str:
    name = event_dict.get("logger") or getattr(logger, "name", None)
    return text(name) if name else "structlog"


@lru_cache(maxsize=1)
def _package_version() -> str | None:
    try:
        return version("toolmend")
    except PackageNotFoundError:
        return None
