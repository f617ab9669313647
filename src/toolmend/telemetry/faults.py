"""Faults: the one guard around our own code; a fault is counted, logged and swallowed."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from toolmend.telemetry import names
from toolmend.telemetry.events import log
from toolmend.telemetry.signals import signals

if TYPE_CHECKING:
    from types import TracebackType

_QUIET_SECONDS: Final = 60.0
_MAX_KINDS: Final = 200
_lock: Final = threading.Lock()
_last_logged: dict[tuple[str, str], float] = {}


class guard:  # noqa: N801 - reads as the verb it is
    """Swallow what our own code raises inside, so that the user's call goes on.

    A class, since it stands on the path of every call, and a generator costs ten times as much.

    Args:
        where: the part at fault, one of ``names.FAULT_PLACES``.
    """

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        report_fault(self._where, error)
        return True


def report_fault(where: str, error: Exception) -> None:
    """Count a fault and log it, at most once a minute for each kind. Never raises."""
    with suppress(Exception):
        signals().add(names.FAULTS, where)
    with suppress(Exception):
        if _is_due((where, type(error).__qualname__)):
            log(
                "error",
                names.LOG_FAULT,
                where=where,
                error_type=type(error).__qualname__,
                # The place, not the message: that could carry content of the history.
                at=_place(error),
            )


def _is_due(kind: tuple[str, str]) -> bool:
    now = time.monotonic()
    with _lock:
        last = _last_logged.get(kind)
        if last is not None and now - last < _QUIET_SECONDS:
            return False
        if len(_last_logged) >= _MAX_KINDS:
            _last_logged.clear()
        _last_logged[kind] = now
        return True


def _place(error: Exception) -> str:
    frame = error.__traceback__
    place = ""
    while frame is not None:
        code = frame.tb_frame.f_code
        place = f"{code.co_filename.rsplit('/', 1)[-1]}:{frame.tb_lineno} in {code.co_name}"
        frame = frame.tb_next
    return place
