"""How recent tool calls ended: a bounded record of this process, kept by guarded tools.

A later model call looks here why a call of its history has no result, and where its span is.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from toolmend.mending.findings import Cause

MAX_CALLS: Final = 10_000
_MAX_CALLS_PER_ID: Final = 32
"""Some hosts number their calls anew in every conversation or answer, so one id may be of many."""


class CallEnd(NamedTuple):
    """How one call ended."""

    tool: str
    cause: Cause | None
    """Why it leaves no result; ``result_lost`` when it had one; None while it runs."""
    span_context: object
    """Of its span, as telemetry has it; None when there is none."""
    digest: bytes | None = None
    """Of its name and arguments, which tells calls of one id apart; None where they are not known."""
    is_as_asked: bool = False
    """Whether these are the arguments of the model's message, and not those that somebody called with."""


_Ends = OrderedDict[tuple[str | None, bytes | None], CallEnd]


def digest_of(tool: str, arguments: object) -> bytes | None:
    """Return a digest of a call, None of arguments that are no JSON; it never leaves the process.

    Args:
        tool: name of the tool.
        arguments: as JSON text, or by name.
    """
    try:
        written = json.dumps(_parsed(arguments), sort_keys=True)
    except Exception:  # noqa: BLE001 - whoever calls a tool by hand may pass anything
        return None
    data = f"{len(tool)}:{tool}{written}".encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16).digest()


def _parsed(arguments: object) -> object:
    if arguments is None or arguments == "":
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:  # free text, or what a model cut off
        return arguments


class CallEnds:
    """The record. Thread-safe.

    Args:
        max_calls: ids beyond this number push out the oldest.
    """

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._ends: OrderedDict[str, _Ends] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, thread: str | None, call_id: str, end: CallEnd) -> None:
        """Note where a call stands; what was noted before of the same call in this thread is replaced."""
        key = thread, end.digest
        with self._lock:
            ends = self._ends.get(call_id)
            if ends is None:
                ends = self._ends[call_id] = OrderedDict()
                if len(self._ends) > self._max_calls:
                    self._ends.popitem(last=False)
            else:
                self._ends.move_to_end(call_id)
            ends[key] = end
            ends.move_to_end(key)
            if len(ends) > _MAX_CALLS_PER_ID:
                ends.popitem(last=False)

    def knows(self, call_id: str) -> bool:
        """Tell whether anything was noted under an id."""
        return call_id in self._ends

    def find(
        self, thread: str | None, call_id: str, tool: str | None, digest: bytes | None = None
    ) -> CallEnd | None:
        """Return how a call ended; None when nobody noted it or it may be another's of that id.

        Args:
            thread: the conversation, None when nobody named it.
            call_id: id of the call.
            tool: name of the tool in the history.
            digest: of name and arguments there, None where they are not known.
        """
        with self._lock:
            noted = list(self._ends.get(call_id, {}).items())
        of_tool = [
            (whose, end) for (whose, _), end in reversed(noted) if tool is None or end.tool == tool
        ]
        own = [end for whose, end in of_tool if whose == thread]
        nameless = [end for whose, end in of_tool if whose is None]
        if digest is not None:
            for ends in (own, nameless):
                same = next((end for end in ends if end.digest == digest), None)
                if same is not None:
                    return same
            if thread is None:
                others = [(whose, end) for whose, end in of_tool if end.digest == digest]
                if others and len({whose for whose, _ in others}) == 1:
                    return others[0][1]
            # In a conversation that is named, whoever calls a tool by hand may have added arguments.
            own = [
                end
                for end in own
                if end.digest is None or (thread is not None and not end.is_as_asked)
            ]
            nameless = [end for end in nameless if end.digest is None]
        for ends in (own, nameless):
            if ends:
                return ends[0] if len(ends) == 1 else None
        return None

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
