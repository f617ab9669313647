"""Baggage: the conversation id that OpenTelemetry carries along."""

from __future__ import annotations

from opentelemetry import baggage

from toolmend.telemetry import names


def thread_from_baggage() -> str | None:
    """Return the conversation id of the current baggage, None if there is none."""
    value = baggage.get_baggage(names.THREAD)
    return value if isinstance(value, str) and value else None
