"""Workers: threads for sync tools that have a time limit, bounded per tool.

A thread cannot be stopped. One whose call was given up goes on until the tool returns, and keeps its
place: a tool that hangs uses up its own workers and nobody else's. They are daemons, so that none of
them keeps a process from ending, which those of ``concurrent.futures`` would.
"""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WORKERS: Final = 64
_IDLE_SECONDS: Final = 10.0


class WorkersBusyError(Exception):
    """Every worker of the tool is taken; the tool was not run."""


_Work = tuple["Future[Any]", "Callable[[], Any]"]


_all_workers: weakref.WeakSet[Workers] = weakref.WeakSet()


class Workers:
    """The worker threads of one tool.

    Args:
        name: of the tool, for the names of the threads.
        limit: how many there may be.
        idle_seconds: how long one stays that has nothing to do.
    """

    def __init__(
        self, name: str, limit: int = MAX_WORKERS, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._name = name
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._start_anew()
        _all_workers.add(self)

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Work] = SimpleQueue()
        self._count = 0
        self._idle = 0

    def submit(self, function: Callable[[], Any], *, waits: bool = False) -> Future[Any]:
        """Run a function in a worker.

        Args:
            function: takes nothing.
            waits: where there is no worker to be had, it waits for one.

        Raises:
            WorkersBusyError: there is no worker to be had.
        """
        future: Future[Any] = Future()
        with self._lock:
            is_full = self._count >= self._limit
            if self._idle > 0 or (is_full and waits):
                self._idle -= 1  # below 0: so many wait
                self._waiting.put((future, function))
                return future
            if is_full:
                raise WorkersBusyError
            self._count += 1
        try:
            # A thread keeps its arguments for as long as it lives: this list is emptied at once.
            first = [(future, function)]
            threading.Thread(
                target=self._work,
                args=(self._waiting, first),
                name=f"toolmend-{self._name}",
                daemon=True,
            ).start()
        except RuntimeError as error:  # no more threads, or the interpreter goes down
            with self._lock:
                self._count -= 1
            raise WorkersBusyError from error
        return future

    def _work(self, waiting: SimpleQueue[_Work], first: list[_Work]) -> None:
        work: _Work | None = first.pop()
        while work is not None:
            _run(*work)
            work = None
            with self._lock:
                self._idle += 1
            work = self._next(waiting)
        # Counted out in _next, under the lock.

    def _next(self, waiting: SimpleQueue[_Work]) -> _Work | None:
        try:
            return waiting.get(timeout=self._idle_seconds)
        except Empty:
            pass
        with self._lock:
            try:
                return waiting.get_nowait()  # promised to this worker a moment ago
            except Empty:
                self._idle -= 1
                self._count -= 1
                return None


def _start_all_anew() -> None:
    for workers in list(_all_workers):
        workers._start_anew()  # noqa: SLF001 - threads do not come along into a forked process


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_anew)


def _run(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        future.set_exception(error)
    else:
        future.set_result(result)
