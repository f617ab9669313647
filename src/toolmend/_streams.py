"""Streams: results that come bit by bit, watched until they end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType


class Watch(Protocol):
    """The call that a stream belongs to. None of its methods raises."""

    def inside(self) -> AbstractContextManager[None]:
        """Mark the work inside as part of this call."""
        ...

    def first_item(self) -> None:
        """Note that an item came."""
        ...

    def succeed(self) -> None:
        """Note that the call is over."""
        ...

    def fail(self, error: BaseException) -> None:
        """Note what the call raised."""
        ...


def is_stream(value: object) -> bool:
    """Tell whether a result is an iterator, sync or async; an iterable such as a list is none."""
    kind = type(value)
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def watch_generator(watch: Watch, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive a generator as ``yield from`` does, with the call marked around each step only.

    A mark that stayed set across a yield would leak into the consumer.
    """
    step, argument = source.send, None
    try:
        while True:
            try:
                with watch.inside():
                    item = step(argument)
            except StopIteration as stop:
                watch.succeed()
                return stop.value
            watch.first_item()
            try:
                argument = yield item
            except GeneratorExit:
                with watch.inside():
                    source.close()
                watch.succeed()
                raise
            except BaseException as error:  # noqa: BLE001 - handed to the generator, as yield from does
                step, argument = source.throw, error
            else:
                step = source.send
    except GeneratorExit:
        raise
    except BaseException as error:
        watch.fail(error)
        raise


OpenStream = Callable[..., Awaitable[tuple[Watch, AsyncGenerator[Any, Any]]]]


def async_generator_function(open_stream: OpenStream) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return an async generator function that drives another generator, marked around each step only.

    Args:
        open_stream: called with the arguments when the first item is asked for; gives the call and the
            generator that belongs to it.
    """

    async def driver(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        watch, source = await open_stream(*args, **kwargs)
        step: Any = source.asend
        argument: Any = None
        try:
            while True:
                try:
                    with watch.inside():
                        item = await step(argument)
                except StopAsyncIteration:
                    watch.succeed()
                    return
                watch.first_item()
                try:
                    argument = yield item
                except GeneratorExit:
                    with watch.inside():
                        await source.aclose()
                    watch.succeed()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed to the generator, as yield from does
                    step, argument = source.athrow, error
                else:
                    step = source.asend
        except GeneratorExit:
            raise
        except BaseException as error:
            watch.fail(error)
            raise

    return driver


def watch_async_generator(
    watch: Watch, source: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    """Drive an async generator that is there already."""

    async def opened() -> tuple[Watch, AsyncGenerator[Any, Any]]:
        return watch, source

    return async_generator_function(opened)()


def watch_stream(watch: Watch, stream: Any) -> Any:
    """Return what stands in for a stream object and watches it."""
    is_sync, is_async = (hasattr(type(stream), name) for name in ("__next__", "__anext__"))
    if is_sync and is_async:
        return _WatchedBothWays(watch, stream)
    return (_WatchedAsyncStream if is_async else _WatchedStream)(watch, stream)


class _Watched:
    """Stands in for a stream: all but iteration and the end goes to the stream itself."""

    __slots__ = ("__weakref__", "_toolmend_stream", "_toolmend_watch")

    def __init__(self, watch: Watch, stream: Any) -> None:
        object.__setattr__(self, "_toolmend_watch", watch)
        object.__setattr__(self, "_toolmend_stream", stream)

    @property  # type: ignore[misc]  # so that isinstance sees the stream's own class
    def __class__(self) -> Any:
        return type(self._toolmend_stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._toolmend_stream, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._toolmend_stream, name, value)

    def __repr__(self) -> str:
        return repr(self._toolmend_stream)

    def close(self) -> Any:
        """Close the stream; the call is over."""
        self._toolmend_watch.succeed()
        return self._toolmend_stream.close()

    def __del__(self) -> None:
        # Abandoned: nobody will read on. While the interpreter goes down nothing can be relied on.
        with suppress(Exception):
            self._toolmend_watch.succeed()


class _WatchedStream(_Watched):
    __slots__ = ()

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

    def __enter__(self) -> Any:
        entered = self._toolmend_stream.__enter__()
        return self if entered is self._toolmend_stream else entered

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


class _WatchedAsyncStream(_Watched):
    __slots__ = ()

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

    async def __aenter__(self) -> Any:
        entered = await self._toolmend_stream.__aenter__()
        return self if entered is self._toolmend_stream else entered

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

    def aclose(self) -> Any:
        """Close the stream; the call is over."""
        self._toolmend_watch.succeed()
        return self._toolmend_stream.aclose()


class _WatchedBothWays(_WatchedStream, _WatchedAsyncStream):
    __slots__ = ()
