"""@tool_call: a tool whose every call ends in a value or in one clear error."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from typing_extensions import ParamSpec, Unpack

from toolmend.errors import PolicyError
from toolmend.execution.breaker import CircuitBreaker
from toolmend.execution.drivers import drive, drive_async
from toolmend.execution.failures import AttemptFailed, Failure
from toolmend.execution.guard import Guard, guard_of, mark
from toolmend.execution.options import ToolOptions, ToolSettings
from toolmend.execution.steps import Steps, conduct

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool_call(
    function: Callable[P, R], /, **options: Unpack[ToolSettings]
) -> Callable[P, R]: ...  # bare, or an existing function


@overload
def tool_call(
    **options: Unpack[ToolSettings],
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # with options


def tool_call(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolSettings]
) -> Any:
    """Guard a tool: every call returns its value or raises ``ToolCallFailed``, and is remembered.

    Serves functions, coroutine functions (on asyncio), methods, and existing callables. Signature, name
    and types stay. A cancellation goes on to the caller, after its result was handed over.

    Args:
        function: the tool.
        **options: keyword options, all of them optional.

    Options:
        name: the tool's name for the model, else the function's.
        effect: what calling it twice does: ``read`` and ``idempotent`` bear it, ``keyed`` does where it
            passes on ``ToolContext.idempotency_key``, ``non_idempotent`` (the default) does not. Only the
            first three are run again after a failure that may have happened all the same.
        timeout_seconds: time limit of one attempt. A sync tool with one runs in a worker thread, where
            thread-local things such as database connections are others; it cannot be stopped there, so
            the outcome of a timeout is not known.
        retry: how often and when to try again; None never does.
        breaker: when to stop calling a tool that fails; None never does.
        arguments_schema: JSON Schema of the arguments, else one derived from the signature.
        prepare_arguments: takes the arguments by name before they are judged and returns cleaned ones.
        result_schema: JSON Schema of what the tool returns.
        check_result: judges what the tool returned: False, a text or an exception is a no.
        strict_result: a result that is judged wrong fails the call; else it is only reported.
        fallback: what answers in place of the tool.
        classify: tells what an exception of the tool means: a ``Failure``, one of the error types, or
            None for the default.
        run_budget: after so many failed calls in one run the tool is not run again there; None for no
            limit. Runs are named by ``tool_context`` or ``Tools.run``.
        max_workers: how many threads a sync tool with a time limit may use.

    Raises:
        TypeError: ``function`` cannot be called.
        PolicyError: an option that cannot work.
    """
    made = ToolOptions(**options)
    if function is None:
        return functools.partial(guarded, made)
    return guarded(made, function)


def guarded(options: ToolOptions, function: Any) -> Any:
    """Return a function under a guard of its own."""
    if isinstance(function, classmethod | staticmethod):
        return type(function)(guarded(options, function.__func__))
    if not callable(function):
        raise TypeError(f"tool_call wraps a function; got {type(function).__name__}")
    if guard_of(function) is not None:
        raise PolicyError(f"{function.__name__} is guarded already; give the options there")
    guard = Guard(function, options)

    def call(*args: Any, **kwargs: Any) -> Any:
        return drive(_steps(guard, args, kwargs)).unwrap()

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return (await drive_async(_steps(guard, args, kwargs))).unwrap()

    wrapper = call_async if guard.is_async else call
    is_plain = inspect.isfunction(function) or inspect.ismethod(function)
    wrapped: Any = functools.wraps(function, updated=("__dict__",) if is_plain else ())(wrapper)
    mark(wrapped, guard)
    return wrapped


def _steps(guard: Guard, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps:
    is_method = guard.signature.is_method and bool(args)
    owner, given = (args[:1], args[1:]) if is_method else ((), args)
    return conduct(guard, functools.partial(_named, guard, given, kwargs), owner)


def _named(guard: Guard, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
    try:
        return guard.signature.named(args, kwargs)
    except TypeError as error:
        raise AttemptFailed(
            Failure(error_type="invalid_arguments", may_have_run=False, message=f"It {error}.")
        ) from None


def breaker_of(tool: Callable[..., Any]) -> CircuitBreaker:
    """Return the breaker of a guarded tool: its state, and how to force it open, disable or reset it.

    Args:
        tool: a function under ``tool_call``.

    Raises:
        TypeError: it is not under ``tool_call``, or has no breaker.
    """
    guard = guard_of(tool)
    if guard is None:
        raise TypeError("breaker_of takes a function under toolmend.tool_call")
    return guard.own_breaker()
