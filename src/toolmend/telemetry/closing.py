"""Flushing and shutting down several OpenTelemetry providers at once, within a time that holds.

The SDK's own shutdowns run one after the other and each waits for a dead collector: together they hold
a process for 13 to 20 seconds. Here each provider has a daemon thread that waits for its last orders.
The threads start early because an interpreter that is going down refuses to start any.
"""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Task = tuple["Future[object]", "Callable[[], object]"]


class Provider(Protocol):
    """What the SDK's three providers have in common."""

    def force_flush(self, timeout_millis: int = ...) -> bool:
        """Export what is pending."""

    def shutdown(self) -> None:
        """Export what is pending and stop."""


class Closing:
    """Runs the flushes and the shutdown of its providers in parallel and stops waiting in time."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._pairs: Final = tuple((provider, _Waiter()) for provider in providers)
        self._shut_down = threading.Event()

    def force_flush(self, timeout_seconds: float) -> bool:
        """Export what is pending; False if a provider did not finish in time or reported a failure."""
        if self._shut_down.is_set():
            return False
        millis = max(int(timeout_seconds * 1000), 1)
        flushes = [
            waiter.run(partial(provider.force_flush, millis)) for provider, waiter in self._pairs
        ]
        return _finish(flushes, timeout_seconds)

    def shutdown(self, timeout_seconds: float) -> bool:
        """Export what is pending and stop, once; False if a provider did not finish in time."""
        if self._shut_down.is_set():
            return True
        self._shut_down.set()
        shutdowns = [waiter.run(provider.shutdown) for provider, waiter in self._pairs]
        return _finish(shutdowns, timeout_seconds)


class _Waiter:
    """A daemon thread that runs what it is given, in order; a forked child has one of its own."""

    def __init__(self) -> None:
        self._start()
        if hasattr(os, "register_at_fork"):
            restart = weakref.WeakMethod(self._start)

            def after_fork() -> None:
                if (start := restart()) is not None:
                    start()

            os.register_at_fork(after_in_child=after_fork)

    def run(self, work: Callable[[], object]) -> Future[object]:
        task: _Task = (Future(), work)
        self._tasks.put(task)
        return task[0]

    def _start(self) -> None:
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._tasks,), name="toolmend-telemetry-closing", daemon=True
        ).start()


def _serve(tasks: SimpleQueue[_Task]) -> None:
    while True:
        future, work = tasks.get()
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - the guard around our own code
            future.set_exception(error)


def _finish(futures: list[Future[object]], timeout_seconds: float) -> bool:
    done, pending = wait(futures, timeout=max(timeout_seconds, 0.0))
    return not pending and all(f.exception() is None and f.result() is not False for f in done)
