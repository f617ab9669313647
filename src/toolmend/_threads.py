"""Threads: which conversation the work at hand belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

_current: ContextVar[str | None] = ContextVar("toolmend_thread", default=None)


@contextmanager
def thread(thread_id: str) -> Iterator[str]:
    """Name the conversation of every model call below, across awaits and tasks started inside.

    Args:
        thread_id: id of the conversation, as your store knows it.

    Raises:
        TypeError: the id is no text.
    """
    if not isinstance(thread_id, str):
        raise TypeError(f"a thread id is a text; got {type(thread_id).__name__}")
    token = _current.set(thread_id)
    try:
        yield thread_id
    finally:
        # Closed from another task, as the event loop does with generators that were left behind: there
        # the name was never set.
        with suppress(ValueError):
            _current.reset(token)


def current_thread() -> str | None:
    """Return the id of the conversation at hand, None when nobody named it."""
    return _current.get()
