"""Streams: results that come bit by bit, watched until they end."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


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

    def abandon(self) -> None:
        """Note that nobody will read on, where the garbage collector may be at work."""
        ...


def is_stream(value: object) -> bool:
    """Tell whether a result is an iterator, sync or async; an iterable such as a list is none."""
    kind = type(value)
    if kind.__module__.startswith("unittest.mock"):
        return False  # a mock has every method, and is compared with itself
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def is_stream_manager(value: object) -> bool:
    """Tell whether a result is an SDK's context manager that sends the request when it is entered."""
    kind = type(value)
    return (
        kind.__module__.partition(".")[0] in _MANAGER_SDKS
        and kind.__name__.endswith("Manager")
        and (hasattr(kind, "__enter__") or hasattr(kind, "__aenter__"))
    )


_MANAGER_SDKS: Final = ("openai", "anthropic")


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
                # Perhaps not closed but collected: then nothing may be counted here and now.
                watch.abandon()
                source.close()
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
        step: Any = _begun(source)
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


def _begun(source: AsyncGenerator[Any, Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return the first step of a generator, taken so that the event loop does not note it down.

    A loop that shuts down closes all generators it knows of at once, ours and the one inside, and would
    find the latter being closed already.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        step = source.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)
    return lambda _: step


def watch_async_generator(
    watch: Watch, source: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    """Drive an async generator that is there already."""

    async def opened() -> tuple[Watch, AsyncGenerator[Any, Any]]:
        return watch, source

    return async_generator_function(opened)()
