"""Loops: run a coroutine for code that knows no event loop, without waiting for what it gave up."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
_SETTLE_SECONDS: Final = 2.0


def run_in_new_loop(main: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run on a loop of its own.

    ``asyncio.run`` waits for every task that is left, also for one that does not end when it is
    cancelled. Here such a task goes on in a daemon thread, as a sync tool does that was given up.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        _leave(loop)


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    try:
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_SETTLE_SECONDS))
    finally:
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # what ended the run is raised already
        if asyncio.all_tasks(loop):
            threading.Thread(
                target=_finish, args=(loop,), name="toolmend-given-up", daemon=True
            ).start()
        else:
            _close(loop)


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    while tasks := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.wait(tasks))
    _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
