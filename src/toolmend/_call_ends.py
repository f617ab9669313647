"""How recent tool calls ended: a bounded record of this process, kept by guarded tools.

A later model call looks here why a call of its history has no result, and where its span is.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from toolmend.mending.findings import Cause

MAX_CALLS: Final = 10_000
_MAX_THREADS_PER_ID: Final = 32
"""Some providers number their calls anew in every conversation, so one id may be of many."""


class CallEnd(NamedTuple):
    """How one call ended."""

    tool: str
    cause: Cause | None
    """Why it leaves no result; ``result_lost`` when it had one; None while it runs."""
    span_context: object
    """Of its span, as telemetry has it; None when there is none."""


_ThreadEnds = OrderedDict[str | None, CallEnd]


class CallEnds:
    """The record. Thread-safe.

    Args:
        max_calls: ids beyond this number push out the oldest.
    """

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._ends: OrderedDict[str, _ThreadEnds] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, thread: str | None, call_id: str, end: CallEnd) -> None:
        """Note where a call stands; what was noted before under its id in this thread is replaced."""
        with self._lock:
            ends = self._ends.get(call_id)
            if ends is None:
                ends = self._ends[call_id] = OrderedDict()
                if len(self._ends) > self._max_calls:
                    self._ends.popitem(last=False)
            else:
                self._ends.move_to_end(call_id)
            ends[thread] = end
            ends.move_to_end(thread)
            if len(ends) > _MAX_THREADS_PER_ID:
                ends.popitem(last=False)

    def find(self, thread: str | None, call_id: str, tool: str | None) -> CallEnd | None:
        """Return how a call ended; None when nobody noted it or it may be another's of that id.

        Args:
            thread: the conversation, None when nobody named it.
            call_id: id of the call.
            tool: name of the tool in the history.
        """
        with self._lock:
            ends = self._ends.get(call_id)
            if ends is None:
                return None
            if thread in ends:
                found = ends[thread]
            elif thread is not None:
                nameless = ends.get(None)
                if nameless is None:
                    return None
                found = nameless
            elif len(ends) == 1:
                [found] = ends.values()
            else:
                return None
        return found if tool is None or found.tool == tool else None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._ends.clear()

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()


call_ends: Final = CallEnds()
"""The record of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=call_ends.renew_lock)
