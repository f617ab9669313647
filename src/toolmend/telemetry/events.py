"""Events: structured log events, on the application's own structlog or the standard library's logging."""

from __future__ import annotations

import logging
from typing import Any, Final

import structlog
from opentelemetry import trace

from toolmend.telemetry import names

_fallback: Final = logging.getLogger(names.SCOPE)
_fallback.addHandler(logging.NullHandler())


def log(level: str, event: str, **fields: object) -> None:
    """Log one event, with the ids of the current span.

    structlog that nobody configured prints to stdout, which would corrupt programs that speak a protocol
    there; until it is configured, events go to the logger ``toolmend`` of the standard library.
    """
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        fields["trace_id"] = trace.format_trace_id(span.trace_id)
        fields["span_id"] = trace.format_span_id(span.span_id)
    if structlog.is_configured():
        getattr(_logger(), level)(event, **fields)
        return
    number = _LEVELS[level]
    if _fallback.isEnabledFor(number):
        pairs = " ".join(f"{key}={value!r}" for key, value in fields.items())
        _fallback.log(number, "%s %s", event, pairs, extra={"toolmend": fields})


def _logger() -> Any:
    """Return the application's logger; an async one logs at once, through its sync half."""
    logger = structlog.get_logger(names.SCOPE)
    try:
        return getattr(logger, "sync_bl", logger)
    except TypeError:  # its factory takes no name
        return structlog.get_logger()


_LEVELS: Final = {
    "debug": logging.DEBUG,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
