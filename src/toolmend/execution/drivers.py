"""Drivers: carry out the steps of a call, in a thread or on asyncio's loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent import futures
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.execution.ended import Ended
from toolmend.execution.failures import AttemptFailed, Failure
from toolmend.execution.steps import (
    AttemptTimedOutError,
    CallCancelledError,
    Run,
    Steps,
    ToolCancelledItselfError,
    Wait,
)
from toolmend.execution.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_SECONDS: Final = 0.25
"""How long a cancelled tool may take to clean up before it is given up."""
_LOOK_SECONDS: Final = 0.1
_fallbacks: Final = Workers("fallback")
"""Whoever asks a human does not wait for a worker of the tool: hung calls may hold them all."""


def drive(steps: Steps) -> Ended:
    """Carry out a call in this thread; with a time limit, the tool runs in a worker thread."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _do(step)
            except BaseException as error:  # noqa: BLE001 - the steps decide
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        ended: Ended = end.value
        return ended


def _do(step: Run | Wait) -> Any:
    if isinstance(step, Wait):
        # An event, so that a shutdown need not wait.
        if (step.call.frame.cancel or threading.Event()).wait(step.seconds):
            raise CallCancelledError
        return None
    if step.limit_seconds is None:
        with step.call.inside():
            return _finished(_uncancelled(step.function))
    future = _submit(step)
    try:
        futures.wait((future,), step.limit_seconds)
    finally:
        if not future.done() and not future.cancel():
            step.call.abandon(future)
    if future.done() and not future.cancelled():
        return _finished(future.result())
    raise AttemptTimedOutError


def _finished(result: Any) -> Any:
    """Return a result, unless it is one that only a loop can finish.

    Raises:
        AttemptFailed: an async function hides behind a sync one.
    """
    if not inspect.iscoroutine(result):
        return result
    result.close()
    error = TypeError("the tool is async behind a sync function: guard the async one")
    raise AttemptFailed(
        Failure(error_type="invalid_schema", may_have_run=False, exception=error)
    ) from error


def _submit(step: Run) -> futures.Future[Any]:
    with step.call.inside():
        context = copy_context()
    workers = step.call.guard.workers if step.is_tool else _fallbacks
    work = partial(context.run, _uncancelled, step.function)
    return workers.submit(work, waits=step.limit_seconds is None)


def _uncancelled(function: Callable[[], Any]) -> Any:
    """Run a sync tool, whose cancellations are its own unless the task that it blocks was cancelled."""
    try:
        return function()
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise ToolCancelledItselfError from error


async def drive_async(steps: Steps, *, is_apart: bool = False) -> Ended:
    """Carry out a call on asyncio's loop.

    Args:
        steps: the call.
        is_apart: every tool runs outside this task: sync ones in worker threads also without a time
            limit, async ones in a task of their own, so that none of them holds up whoever waits here.
    """
    try:
        step = next(steps)
        while True:
            work = _Work(step, is_apart=is_apart)
            try:
                answer = await work.do()
            except GeneratorExit as error:
                work.drop()  # closed by the collector: nothing can be awaited any more
                step = steps.throw(error)
            except BaseException as error:  # noqa: BLE001 - the steps decide
                try:
                    step = steps.throw(error)
                finally:
                    await work.settle()
            else:
                step = steps.send(answer)
    except StopIteration as end:
        ended: Ended = end.value
        return ended


class _Work:
    """One step on the loop. What it started and was not seen to its end is settled afterwards."""

    def __init__(self, step: Run | Wait, *, is_apart: bool) -> None:
        self._step = step
        self._is_apart = is_apart
        self._running: asyncio.Future[Any] | None = None
        self._in_thread: futures.Future[Any] | None = None

    async def do(self) -> Any:
        """Carry it out."""
        step = self._step
        if isinstance(step, Wait):
            return await _sleep(step.seconds, step.call.frame.cancel)
        if not step.is_async and (
            step.limit_seconds is not None or self._is_apart or step.is_aside
        ):
            self._in_thread = _submit(step)
            self._running = _end_of(self._in_thread)
        elif step.limit_seconds is None and not self._is_apart:
            return await _here(step)
        else:
            with step.call.inside():
                self._running = asyncio.ensure_future(_called(step))
        await asyncio.wait((self._running,), timeout=step.limit_seconds)
        if self._in_thread is not None and self._in_thread.done():
            result = self._in_thread.result()
            if not inspect.isawaitable(result):
                return result
            # An async function behind a sync one: what it returned runs here.
            self._in_thread = None
            self._running = asyncio.ensure_future(_awaited(result))
            await asyncio.wait((self._running,), timeout=step.limit_seconds)
        if not self._running.done():
            await self.settle()
            raise AttemptTimedOutError
        if self._running.cancelled():
            raise ToolCancelledItselfError from asyncio.CancelledError()
        return self._running.result()

    async def settle(self) -> None:
        """Cancel what still runs, give it a moment, and then give it up; what it returns is late."""
        running, call = self._running, self._step.call
        self._running = None
        if running is None:
            return
        if self._in_thread is not None:
            self._leave_thread(self._in_thread)
        elif not running.done():
            running.cancel()
            try:
                await asyncio.wait((running,), timeout=GRACE_SECONDS)
            finally:
                if not running.done():
                    call.abandon(running)
        _look_at(running)

    def drop(self) -> None:
        """Cancel what still runs, without waiting for it."""
        if self._in_thread is not None:
            self._leave_thread(self._in_thread)
        elif self._running is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._running.cancel()

    def _leave_thread(self, thread: futures.Future[Any]) -> None:
        if not thread.done() and not thread.cancel():
            self._step.call.abandon(thread)


async def _sleep(seconds: float, cancel: threading.Event | None) -> None:
    """Wait; an event of threads has to be looked at, since it wakes no loop."""
    if cancel is None:
        await asyncio.sleep(seconds)
        return
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        await asyncio.sleep(min(left, _LOOK_SECONDS))
        if cancel.is_set():
            raise CallCancelledError


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _end_of(thread: futures.Future[Any]) -> asyncio.Future[None]:
    """Return what is done when a thread is; its outcome stays there, since not every one can be copied."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def mark() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell(_: futures.Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(mark)

    thread.add_done_callback(tell)
    return ended


def _look_at(ended: asyncio.Future[Any]) -> None:
    """Take note of an exception that comes too late, so that nobody complains that it was not."""
    if ended.done() and not ended.cancelled():
        ended.exception()


async def _here(step: Run) -> Any:
    """Run a tool in the caller's own task."""
    asked = _cancellations()
    try:
        with step.call.inside():
            value = await _called(step)
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise ToolCancelledItselfError from error
    except Exception as error:
        if _cancellations() > asked:
            raise asyncio.CancelledError from error
        raise
    if _cancellations() > asked:
        # The tool swallowed it. Whoever cancelled waits for it: a time limit, a group of tasks.
        raise asyncio.CancelledError
    return value


async def _called(step: Run) -> Any:
    result = step.function()
    return await result if inspect.isawaitable(result) else result


def _cancellations() -> int:
    """Return how often this task was asked to end; before Python 3.11 nobody counts."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return 0 if cancelling is None else int(cancelling())


def _is_cancelled() -> bool:
    """Tell whether somebody asked this task to end; before Python 3.11 nobody can tell otherwise."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop here, so there is no task
        return False
    cancelling = getattr(task, "cancelling", None)
    return task is not None and (cancelling is None or cancelling() > 0)
