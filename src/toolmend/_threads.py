"""Threads: which conversation the work at hand belongs to."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast
from uuid import UUID

from typing_extensions import ParamSpec

P = ParamSpec("P")
R = TypeVar("R")

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


def as_id(value: object) -> str | None:
    """Return an id of a conversation or run as a text, None where it can be none."""
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        return None
    return str(value) or None


def propagate(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that works under the conversation named here, wherever it is run.

    Threads that a pool started earlier know nothing of ``toolmend.thread``::

        pool.submit(toolmend.propagate(ask), messages)

    Args:
        function: a function or coroutine function.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(function):
        raise TypeError(f"propagate takes a function; got {type(function).__name__}")
    thread_id = _current.get()
    if thread_id is None:
        return function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with thread(thread_id):
                return await function(*args, **kwargs)

        return cast("Callable[P, R]", run_async)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with thread(thread_id):
            return function(*args, **kwargs)

    return run
