"""Abandoned: work that a finalizer may only note down, done a moment later by somebody else."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue


class Abandoned:
    """A queue of things to do that takes them in where the garbage collector runs.

    ``SimpleQueue.put`` may be called while the same thread is inside it, unlike anything with a lock.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def put(self, work: Callable[[], None]) -> None:
        """Take something in."""
        self._waiting.put(work)

    def settle(self) -> None:
        """Do what is waiting."""
        while not self._waiting.empty():
            try:
                work = self._waiting.get_nowait()
            except Empty:  # another thread was faster
                return
            work()

    def start(self) -> None:
        """Start the thread that does what nobody else does; after a fork, start it anew."""
        if self._thread is not None and self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._serve, name="toolmend-abandoned-streams", daemon=True
        )
        # Late in a process no thread can be started any more; then the next call settles.
        with suppress(RuntimeError):
            self._thread.start()

    def _serve(self) -> None:
        while True:
            self._waiting.get()()
