"""Retry-After: what the other side asks for, as seconds."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final

_LONGEST_TEXT: Final = 100


def retry_after_seconds(value: object, now: datetime | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, None for what says nothing.

    Source: RFC 9110, section 10.2.3: whole seconds, or a date.

    Args:
        value: the header.
        now: the time of the other side, as its ``Date`` header tells it; else the own clock.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and (not value.strip() or len(value) > _LONGEST_TEXT):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    except ValueError:
        return _until(str(value), now)
    return seconds if 0 <= seconds < math.inf else None


def _until(date: str, now: datetime | None) -> float | None:
    at = as_datetime(date)
    if at is None:
        return None
    return max(0.0, (at - (now or datetime.now(timezone.utc))).total_seconds())


def as_datetime(date: object) -> datetime | None:
    """Return the time that an HTTP date names, None for what is none."""
    if not isinstance(date, str) or len(date) > _LONGEST_TEXT:
        return None
    try:
        at = parsedate_to_datetime(date)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
