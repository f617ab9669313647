"""Context: which call, run and conversation a tool runs for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Final

from toolmend._threads import as_id
from toolmend._threads import thread as named_thread
from toolmend.execution.failures import ToolCallFailed
from toolmend.settings import ThreadLabel
from toolmend.telemetry.thread_labels import check_thread_label


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
    thread_label: ThreadLabel | None = None
    digest: bytes | None = None  # of the call in the model's message, where that is known
    on_interrupted: Callable[[ToolCallFailed], None] | None = field(default=None, repr=False)

    def deadline_within(self, seconds: float | None) -> float | None:
        """Return when the time is over of what may take so many seconds, and no longer than this."""
        if seconds is None:
            return self.deadline
        own = time.monotonic() + seconds
        return own if self.deadline is None else min(own, self.deadline)

    def inner(self) -> CallFrame:
        """Return what surrounds the calls that a tool makes itself: it is the same run, not this call."""
        return CallFrame(
            run_id=self.run_id,
            deadline=self.deadline,
            cancel=self.cancel,
            thread_label=self.thread_label,
        )


_NO_FRAME: Final = CallFrame()
current_frame: Final[ContextVar[CallFrame]] = ContextVar("toolmend_tool_call", default=_NO_FRAME)


def leave_frame(token: Token[CallFrame]) -> None:
    """Return to what surrounded the frame that a token stands for.

    A generator or coroutine that was left behind is closed in another context: there the frame was never set.
    """
    with suppress(ValueError):
        current_frame.reset(token)


@contextmanager
def tool_context(
    *,
    call_id: str | None = None,
    run_id: str | None = None,
    step: int | None = None,
    thread: str | None = None,
    deadline_seconds: float | None = None,
    cancel: threading.Event | None = None,
    thread_label: ThreadLabel | None = None,
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
        thread_label: ``"hash"`` keeps the id of the conversation out of the telemetry of the call and of
            those inside it; a tool's own option wins, and without any ``TOOLMEND_THREAD_LABEL`` says.
        on_interrupted: told at once, with the result for the model, when the call is cancelled or
            interrupted; the exception goes on afterwards. Must not wait.

    Raises:
        PolicyError: there is no such ``thread_label``.
    """
    check_thread_label(thread_label)
    outer = current_frame.get()
    frame = CallFrame(
        call_id=call_id,
        run_id=outer.run_id if run_id is None else as_id(run_id),
        step=step,
        deadline=outer.deadline_within(deadline_seconds),
        cancel=outer.cancel if cancel is None else cancel,
        thread_label=thread_label or outer.thread_label,
        on_interrupted=on_interrupted,
    )
    token = current_frame.set(frame)
    try:
        with nullcontext() if thread is None else named_thread(thread):
            yield
    finally:
        leave_frame(token)
