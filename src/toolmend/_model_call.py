"""@model_call: mend the history a function is about to send, and see the call through to its end."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar, overload

from typing_extensions import ParamSpec

from toolmend._arguments import StateAccess
from toolmend._prepared import Options, Prepared
from toolmend._run import OnRepair, Run, watch_for_abandoned
from toolmend._streams import (
    async_generator_function,
    is_stream,
    is_stream_manager,
    watch_async_generator,
    watch_generator,
)
from toolmend._watched import watch_manager, watch_stream
from toolmend.mend import find_format
from toolmend.mending.policy import Policy, checked_policy
from toolmend.telemetry.thread_labels import check_thread_label

P = ParamSpec("P")
R = TypeVar("R")


@overload
def model_call(function: Callable[P, R], /) -> Callable[P, R]: ...  # bare


@overload
def model_call(
    function: Callable[P, R],
    /,
    *,
    messages: str | StateAccess | None = ...,
    model: str | None = ...,
    provider: str | None = ...,
    thread: str | Callable[[dict[str, Any]], str | None] | None = ...,
    thread_label: Literal["raw", "hash"] | None = ...,
    format: str | None = ...,
    policy: Policy | None = ...,
    on_repair: OnRepair | None = ...,
) -> Callable[P, R]: ...  # an existing function, with options


@overload
def model_call(
    *,
    messages: str | StateAccess | None = ...,
    model: str | None = ...,
    provider: str | None = ...,
    thread: str | Callable[[dict[str, Any]], str | None] | None = ...,
    thread_label: Literal["raw", "hash"] | None = ...,
    format: str | None = ...,
    policy: Policy | None = ...,
    on_repair: OnRepair | None = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # with options


def model_call(
    function: Callable[..., Any] | None = None,
    /,
    *,
    messages: str | StateAccess | None = None,
    model: str | None = None,
    provider: str | None = None,
    thread: str | Callable[[dict[str, Any]], str | None] | None = None,
    thread_label: Literal["raw", "hash"] | None = None,
    format: str | None = None,
    policy: Policy | None = None,
    on_repair: OnRepair | None = None,
) -> Any:
    """Mend the history that a function is about to send, and observe the call.

    Serves functions, coroutines, generators, async generators, functions that return a stream or an
    awaitable, methods and bound methods. Signature, name and types stay. What the function raises comes
    out unmodified; a fault of our own passes the original history on and is counted.

    Args:
        function: the function that calls the model.
        messages: name of the parameter with the history, or a pair of functions: one gets the history
            out of the first argument (a state), one returns a state with another history in it.
            Without it the first of ``messages``, ``input``, ``contents``, ``history`` in the signature
            or among the keyword arguments, else the first argument that looks like a history.
        model: name of the model, else the call's ``model``, ``model_id`` or ``modelId``.
        provider: name of the provider; known by itself for bound methods of the SDKs of OpenAI,
            Anthropic, Google (genai), AWS (botocore) and Mistral.
        thread: id of the conversation, or a function of the arguments by name that returns it. Without
            it: ``toolmend.thread(...)``, the call's ``thread_id``, ``conversation_id`` or ``session_id``,
            OpenTelemetry baggage, LangGraph's thread id; else none.
        thread_label: ``"hash"`` keeps thread ids out of telemetry.
        format: wire format of the history; recognised if None.
        policy: what to do about faults. ``TOOLMEND_MODE`` wins over its mode.
        on_repair: called with the ``Repair`` before the model call, once per outermost call that changed
            something; may be async for async functions.

    Raises:
        TypeError: ``function`` cannot be called, or has no parameter named as ``messages`` says.
        HistoryError: there is no format of that name.
        PolicyError: ``policy`` or ``thread_label`` is of no use.
    """
    if format is not None:
        find_format([], format)
    policy = checked_policy(policy)
    if messages is not None and not isinstance(messages, str) and not _is_access(messages):
        raise TypeError(
            "messages is the name of a parameter, or a pair of functions: get(state) and "
            f"put(state, messages); got {messages!r}"
        )
    check_thread_label(thread_label)
    options = Options(
        messages=messages,
        model=model,
        provider=provider,
        thread=thread,
        thread_label=thread_label,
        format=format,
        policy=policy,
        on_repair=on_repair,
    )
    if function is None:
        return functools.partial(decorate, options)
    return decorate(options, function)


def _is_access(messages: object) -> bool:
    return isinstance(messages, tuple) and len(messages) == 2 and all(map(callable, messages))  # noqa: PLR2004 - a pair


def decorate(options: Options, function: Any) -> Any:
    """Return a function whose histories are mended, as ``model_call`` does."""
    if isinstance(function, classmethod | staticmethod):
        return type(function)(decorate(options, function.__func__))
    if not callable(function):
        raise TypeError(f"model_call wraps a function; got {type(function).__name__}")
    call = Prepared(options, function)
    if _is(inspect.isasyncgenfunction, function):
        wrapper = _wrap_async_generator(call, function)
    elif _is(inspect.isgeneratorfunction, function):
        wrapper = _wrap_generator(call, function)
    elif _is(inspect.iscoroutinefunction, function):
        wrapper = _wrap_coroutine(call, function)
    else:
        wrapper = _wrap_function(call, function)
    if inspect.isfunction(function) or inspect.ismethod(function):
        return functools.wraps(function)(wrapper)
    # The attributes of an object are its own business.
    return functools.wraps(function, updated=())(wrapper)


def _is(kind: Callable[[object], bool], function: object) -> bool:
    """Tell whether a function, or the object that stands in for one, is of a kind."""
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004 - looked at, not called


def _wrap_function(call: Prepared, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = call.begin(args, kwargs)
        if run is None:
            return function(*args, **kwargs)
        run.tell()
        try:
            with run.inside():
                result = function(*run.args, **run.kwargs)
        except BaseException as error:
            run.fail(error)
            raise
        return _watched(run, result)

    return wrapper


def _wrap_coroutine(call: Prepared, function: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = call.begin(args, kwargs)
        if run is None:
            return await function(*args, **kwargs)
        await run.tell_async()
        return await _awaited(run, function(*run.args, **run.kwargs))

    return wrapper


def _wrap_generator(call: Prepared, function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = call.begin(args, kwargs)
        if run is None:
            return (yield from function(*args, **kwargs))
        run.tell()
        watch_for_abandoned()
        return (yield from watch_generator(run, function(*run.args, **run.kwargs)))

    return wrapper


def _wrap_async_generator(call: Prepared, function: Callable[..., Any]) -> Callable[..., Any]:
    async def open_stream(*args: Any, **kwargs: Any) -> Any:
        run = call.begin(args, kwargs)
        if run is None:
            return Run(args, kwargs), function(*args, **kwargs)
        await run.tell_async()
        return run, function(*run.args, **run.kwargs)

    return async_generator_function(open_stream)


def _watched(run: Run, result: Any) -> Any:
    """Return a result; one that is not there yet is watched to its end."""
    if inspect.isgenerator(result):
        watch_for_abandoned()
        return watch_generator(run, result)
    if inspect.isasyncgen(result):
        return watch_async_generator(run, result)
    if asyncio.isfuture(result):
        result.add_done_callback(run.end_with)
        return result
    if inspect.iscoroutine(result) or (
        inspect.isawaitable(result) and not hasattr(type(result), "__aenter__")
    ):
        return _awaited(run, result)
    if is_stream(result):
        watch_for_abandoned()
        return watch_stream(run, result)
    if is_stream_manager(result):
        watch_for_abandoned()
        return watch_manager(run, result)
    run.succeed()
    return result


async def _awaited(run: Run, awaitable: Awaitable[Any]) -> Any:
    try:
        with run.inside():
            result = await awaitable
    except BaseException as error:
        run.fail(error)
        raise
    return _watched(run, result)
