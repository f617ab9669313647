"""Drivers: carry out the steps of a call, in a thread or on asyncio's loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent import futures
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from toolmend.execution.call import Ended
from toolmend.execution.steps import (
    AttemptTimedOutError,
    CallCancelledError,
    Run,
    Steps,
    ToolCancelledItselfError,
    Wait,
)

GRACE_SECONDS: Final = 0.25
"""How long a cancelled tool may take to clean up before it is given up."""


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
    cancel = step.call.frame.cancel
    if isinstance(step, Wait):
        # An event, so that a shutdown need not wait.
        if (cancel or threading.Event()).wait(step.seconds):
            raise CallCancelledError
        return None
    if cancel is not None and cancel.is_set():
        raise CallCancelledError
    if step.limit_seconds is None:
        with step.call.inside():
            return step.function()
    future = _submit(step)
    try:
        futures.wait((future,), step.limit_seconds)
    finally:
        if not future.done() and not future.cancel():
            step.call.abandon(future)
    if future.done() and not future.cancelled():
        return future.result()
    raise AttemptTimedOutError


def _submit(step: Run) -> futures.Future[Any]:
    with step.call.inside():
        context = copy_context()
    return step.call.guard.workers.submit(partial(context.run, step.function))


async def drive_async(steps: Steps, *, in_workers: bool = False) -> Ended:
    """Carry out a call on asyncio's loop.

    Args:
        steps: the call.
        in_workers: sync tools run in worker threads also without a time limit.
    """
    try:
        step = next(steps)
        while True:
            work = _Work(step, in_workers=in_workers)
            try:
                answer = await work.do()
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

    def __init__(self, step: Run | Wait, *, in_workers: bool) -> None:
        self._step = step
        self._in_workers = in_workers
        self._running: asyncio.Future[Any] | None = None
        self._in_thread: futures.Future[Any] | None = None

    async def do(self) -> Any:
        """Carry it out."""
        step = self._step
        if isinstance(step, Wait):
            return await asyncio.sleep(step.seconds)
        if not step.is_async and (step.limit_seconds is not None or self._in_workers):
            self._in_thread = _submit(step)
            self._running = asyncio.wrap_future(self._in_thread)
        elif step.limit_seconds is None:
            return await _here(step)
        else:
            with step.call.inside():
                self._running = asyncio.ensure_future(_called(step))
        await asyncio.wait((self._running,), timeout=step.limit_seconds)
        if not self._running.done():
            await self.settle()
            raise AttemptTimedOutError
        if self._running.cancelled():
            raise ToolCancelledItselfError from asyncio.CancelledError()
        return self._running.result()

    async def settle(self) -> None:
        """Cancel what still runs, give it a moment, and then give it up; what it returns is late."""
        running, step = self._running, self._step
        if running is None or running.done() or isinstance(step, Wait):
            return
        self._running = None
        if self._in_thread is not None:
            if not self._in_thread.cancel():
                step.call.abandon(self._in_thread)
            running.cancel()
            return
        running.cancel()
        try:
            await asyncio.wait((running,), timeout=GRACE_SECONDS)
        finally:
            if not running.done():
                step.call.abandon(running)
            elif not running.cancelled():
                running.exception()  # so that nobody complains that it was never looked at


async def _here(step: Run) -> Any:
    """Run a tool in the caller's own task."""
    with step.call.inside():
        try:
            return await _called(step)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            raise ToolCancelledItselfError from error


async def _called(step: Run) -> Any:
    result = step.function()
    return await result if inspect.isawaitable(result) else result


def _is_cancelled() -> bool:
    """Tell whether somebody asked this task to end; before Python 3.11 nobody can tell otherwise."""
    task = asyncio.current_task()
    cancelling = getattr(task, "cancelling", None)
    return cancelling is None or cancelling() > 0
