"""Watched: objects that stand in for an SDK's streams and see them to their end."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from toolmend._streams import Watch


def watch_stream(watch: Watch, stream: Any) -> Any:
    """Return what stands in for a stream: it can do what the stream can, and no more."""
    kind = type(stream)
    bases: list[type] = []
    for method, base in (
        ("__next__", _Iterating),
        ("__anext__", _IteratingAsync),
        ("__enter__", _Entered),
        ("__aenter__", _EnteredAsync),
    ):
        if hasattr(kind, method):
            bases.append(base)
    return _kind_of(*bases)(watch, stream)


def watch_manager(watch: Watch, manager: Any) -> Any:
    """Return what stands in for a context manager that sends the request when it is entered."""
    kind = type(manager)
    bases: list[type] = []
    if hasattr(kind, "__enter__"):
        bases.append(_Sending)
    if hasattr(kind, "__aenter__"):
        bases.append(_SendingAsync)
    return _kind_of(*bases)(watch, manager)


@cache
def _kind_of(*bases: type) -> Any:
    return type("Watched", (*bases, _Watched), {"__slots__": ()})


class _Watched:
    """Everything but iteration and the end goes to the object itself."""

    __slots__ = ("__weakref__", "_toolmend_stream", "_toolmend_watch")

    def __init__(self, watch: Watch, stream: Any) -> None:
        object.__setattr__(self, "_toolmend_watch", watch)
        object.__setattr__(self, "_toolmend_stream", stream)

    @property  # type: ignore[misc]  # so that isinstance sees the stream's own class
    def __class__(self) -> Any:
        # Not its type, which is another one where it is a stand-in itself, of another instrumentation.
        return self._toolmend_stream.__class__

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._toolmend_stream, name)
        if name in ("close", "aclose"):
            return self._closing(value)
        if name == "response" and (hasattr(value, "close") or hasattr(value, "aclose")):
            # Helpers of an SDK keep the response alone, and close that.
            return _Response(self._toolmend_watch, value)
        return value

    def _closing(self, close: Any) -> Any:
        def closing(*args: Any, **kwargs: Any) -> Any:
            self._toolmend_watch.succeed()
            return close(*args, **kwargs)

        return closing

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._toolmend_stream, name, value)

    def __repr__(self) -> str:
        return repr(self._toolmend_stream)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._toolmend_stream == other)

    def __hash__(self) -> int:
        return hash(self._toolmend_stream)

    def __del__(self) -> None:
        # While the interpreter goes down nothing can be relied on.
        with suppress(Exception):
            self._toolmend_watch.abandon()


class _Response(_Watched):
    """The response of a stream: to close it ends the stream, to let go of it does not."""

    __slots__ = ()

    def __del__(self) -> None:
        return


class _Iterating:
    __slots__ = ()
    _toolmend_stream: Any
    _toolmend_watch: Watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            with self._toolmend_watch.inside():
                item = next(self._toolmend_stream)
        except StopIteration:
            self._toolmend_watch.succeed()
            raise
        except BaseException as error:
            self._toolmend_watch.fail(error)
            raise
        self._toolmend_watch.first_item()
        return item


class _IteratingAsync:
    __slots__ = ()
    _toolmend_stream: Any
    _toolmend_watch: Watch

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            with self._toolmend_watch.inside():
                item = await self._toolmend_stream.__anext__()
        except StopAsyncIteration:
            self._toolmend_watch.succeed()
            raise
        except BaseException as error:
            self._toolmend_watch.fail(error)
            raise
        self._toolmend_watch.first_item()
        return item


class _Exiting:
    __slots__ = ()
    _toolmend_stream: Any
    _toolmend_watch: Watch

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        try:
            return self._toolmend_stream.__exit__(kind, error, trace)
        finally:
            self._toolmend_watch.succeed()


class _ExitingAsync:
    __slots__ = ()
    _toolmend_stream: Any
    _toolmend_watch: Watch

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        try:
            return await self._toolmend_stream.__aexit__(kind, error, trace)
        finally:
            self._toolmend_watch.succeed()


class _Entered(_Exiting):
    __slots__ = ()

    def __enter__(self) -> Any:
        entered = self._toolmend_stream.__enter__()
        return self if entered is self._toolmend_stream else entered


class _EnteredAsync(_ExitingAsync):
    __slots__ = ()

    async def __aenter__(self) -> Any:
        entered = await self._toolmend_stream.__aenter__()
        return self if entered is self._toolmend_stream else entered


class _Sending(_Exiting):
    """Sends the request when it is entered: then it is counted, or fails."""

    __slots__ = ()

    def __enter__(self) -> Any:
        try:
            with self._toolmend_watch.inside():
                entered = self._toolmend_stream.__enter__()
        except BaseException as error:
            self._toolmend_watch.fail(error)
            raise
        self._toolmend_watch.first_item()
        return entered


class _SendingAsync(_ExitingAsync):
    """The same, async."""

    __slots__ = ()

    async def __aenter__(self) -> Any:
        try:
            with self._toolmend_watch.inside():
                entered = await self._toolmend_stream.__aenter__()
        except BaseException as error:
            self._toolmend_watch.fail(error)
            raise
        self._toolmend_watch.first_item()
        return entered
