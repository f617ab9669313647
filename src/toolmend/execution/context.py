"""Context: which call, run and conversation a tool runs for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from toolmend._threads import as_id
from toolmend._threads import thread as named_thread
from toolmend.execution.failures import ToolCallFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know about its call. A parameter annotated with it is hidden from the model.

    Attributes:
        tool_name: name of the tool.
        call_id: id of the call, None where nobody named it.
        run_id: the work on one incoming message, None where nobody named it.
        step: number of the model call in the run.
        thread: id of the conversation.
        attempt: which attempt this is, from 1.
        idempotency_key: the same for every attempt of this call, and for no other call. Pass it on to
            the other side, and the tool is ``effect="keyed"``.
        deadline: on the clock of ``time.monotonic()``; None for no limit.
    """

    tool_name: str
    call_id: str | None
    run_id: str | None
    step: int | None
    thread: str | None
    attempt: int
    idempotency_key: str
    deadline: float | None

    def remaining_seconds(self) -> float | None:
        """Return how much time the call has left, never below 0; None for no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFrame:
    """What surrounds a call."""

    call_id: str | None = None
    run_id: str | None = None
    step: int | None = None
    deadline: float | None = None
    cancel: threading.Event | None = None
    on_interrupted: Callable[[ToolCallFailed], None] | None = field(default=None, repr=False)

    def inner(self) -> CallFrame:
        """Return what surrounds the calls that a tool makes itself: it is the same run, not this call."""
        return CallFrame(run_id=self.run_id, deadline=self.deadline, cancel=self.cancel)


_NO_FRAME: Final = CallFrame()
current_frame: Final[ContextVar[CallFrame]] = ContextVar("toolmend_tool_call", default=_NO_FRAME)


@contextmanager
def tool_context(
    *,
    call_id: str | None = None,
    run_id: str | None = None,
    step: int | None = None,
    thread: str | None = None,
    deadline_seconds: float | None = None,
    cancel: threading.Event | None = None,
    on_interrupted: Callable[[ToolCallFailed], None] | None = None,
) -> Iterator[None]:
    """Say which call the guarded tool below runs for.

    Args:
        call_id: id of the call. With it, a later repair knows why the call has no result.
        run_id: the work on one incoming message; budgets are counted per run.
        step: number of the model call in the run.
        thread: id of the conversation, as ``toolmend.thread`` names it.
        deadline_seconds: time for the whole call, retries and fallback included.
        cancel: ends a sync tool's waits between attempts, and the call, once it is set.
        on_interrupted: told at once, with the result for the model, when the call is cancelled or
            interrupted; the exception goes on afterwards. Must not wait.
    """
    outer = current_frame.get()
    deadline = outer.deadline
    if deadline_seconds is not None:
        own = time.monotonic() + deadline_seconds
        deadline = own if deadline is None else min(own, deadline)
    frame = CallFrame(
        call_id=call_id,
        run_id=outer.run_id if run_id is None else as_id(run_id),
        step=step,
        deadline=deadline,
        cancel=outer.cancel if cancel is None else cancel,
        on_interrupted=on_interrupted,
    )
    token = current_frame.set(frame)
    try:
        with nullcontext() if thread is None else named_thread(thread):
            yield
    finally:
        current_frame.reset(token)
