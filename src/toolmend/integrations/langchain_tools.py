"""LangChain's tools: each call under the guard of its tool."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage

from toolmend._arguments import thread_in
from toolmend._threads import as_id, current_thread
from toolmend.errors import PolicyError
from toolmend.execution.context import current_frame, tool_context
from toolmend.execution.drivers import drive, drive_async
from toolmend.execution.failures import AttemptFailed, Failure
from toolmend.execution.guard import Guard, is_async
from toolmend.execution.options import ToolOptions
from toolmend.execution.results import MAX_CHARS
from toolmend.execution.steps import conduct
from toolmend.telemetry.baggage import thread_from_baggage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

    from toolmend.execution.breaker import CircuitBreaker
    from toolmend.execution.ended import Ended
    from toolmend.execution.options import ToolSettings
    from toolmend.settings import ThreadLabel
    from toolmend.telemetry.names import ErrorType


class ToolGuards:
    """The guards of an agent's tools, by name; those not listed get theirs when they are first called.

    Args:
        tools: how tools are guarded, by name, with the options of ``toolmend.tool_call``.
        default: what a tool's own settings leave out, and all there is for tools not listed.
        thread_label: ids of conversations in telemetry as they are, or hashed.

    Raises:
        PolicyError: an option that cannot work.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, ToolSettings] | None = None,
        default: ToolSettings | None = None,
        thread_label: ThreadLabel | None = None,
    ) -> None:
        self._thread_label = thread_label
        self._default: ToolSettings = {} if default is None else default.copy()
        self._settings = dict(tools or {})
        _options("any", self._default, {})
        self._guards = {name: self._new_guard(name) for name in self._settings}

    def run(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run one tool call under its guard.

        Raises:
            PolicyError: the fallback of the tool is async.
        """
        if request.tool is None:
            return handler(request)
        guard = self._guard(request.tool_call["name"])
        _refuse_async_fallback(guard)

        def run(**given: object) -> ToolMessage | Command[Any]:
            asked = _asking(request, given)
            return _judged(asked, handler(asked))

        with _surroundings(request, self._thread_label):
            ended = drive(conduct(guard, partial(_arguments, guard, request), function=run))
        return _answer(request, ended)

    async def run_async(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Run one tool call under its guard, on asyncio's loop."""
        if request.tool is None:
            return await handler(request)
        guard = self._guard(request.tool_call["name"])

        async def run(**given: object) -> ToolMessage | Command[Any]:
            asked = _asking(request, given)
            return _judged(asked, await handler(asked))

        with _surroundings(request, self._thread_label):
            steps = conduct(guard, partial(_arguments, guard, request), function=run)
            ended = await drive_async(steps)
        return _answer(request, ended)

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the breaker of a tool.

        Args:
            name: of the tool.

        Raises:
            TypeError: it has none, by its settings.
        """
        return self._guard(name).own_breaker()

    def available_tools(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of some tools whose breaker would let a call through now.

        Args:
            names: of the tools.
        """
        found = ((name, self._guards.get(name)) for name in names)
        return tuple(name for name, guard in found if guard is None or guard.is_available())

    def _guard(self, name: str) -> Guard:
        guard = self._guards.get(name)
        # Two threads may make one at the same time: the first to be kept is everybody's.
        return self._guards.setdefault(name, self._new_guard(name)) if guard is None else guard

    def _new_guard(self, name: str) -> Guard:
        return Guard(None, _options(name, self._default, self._settings.get(name, {})))


class ToolAnsweredError(Exception):
    """A tool's answer says by itself that the call failed; never leaves this module.

    Attributes:
        answer: what goes to the model.
    """

    def __init__(self, answer: ToolMessage) -> None:
        super().__init__()
        self.answer = answer


def _options(name: str, default: ToolSettings, own: ToolSettings) -> ToolOptions:
    merged: ToolSettings = {**default, **own}
    if "name" in merged:
        raise PolicyError("ToolmendMiddleware takes the names of tools as LangChain has them")
    if merged.get("result_schema") is not None:
        raise PolicyError(
            "a LangChain tool's result is a message, for which there is no schema; "
            "judge it with check_result="
        )
    merged["name"] = name
    return ToolOptions(**merged)


def _refuse_async_fallback(guard: Guard) -> None:
    fallback = guard.options.fallback
    if fallback is None:
        return
    if is_async(fallback.human) or (guard.alternative is not None and guard.alternative.is_async):
        raise PolicyError(
            f"the fallback of {guard.tool_name} is async, so the agent must be: "
            "call ainvoke or astream"
        )


def _arguments(guard: Guard, request: ToolCallRequest) -> dict[str, object]:
    """Return the arguments; a copy where they are prepared, since the request's belong to the history."""
    arguments = request.tool_call["args"]
    return arguments if guard.options.prepare_arguments is None else deepcopy(arguments)


def _asking(request: ToolCallRequest, given: dict[str, object]) -> ToolCallRequest:
    """Return the request with the arguments that were prepared; itself where they are the same."""
    if given == request.tool_call["args"]:
        return request
    return request.override(tool_call={**request.tool_call, "args": given})


def _judged(
    request: ToolCallRequest, answer: ToolMessage | Command[Any]
) -> ToolMessage | Command[Any]:
    """Return an answer, unless it says that the call failed: such a one reaches the model all the same.

    Raises:
        AttemptFailed: it says so.
    """
    if not isinstance(answer, ToolMessage) or answer.status != "error":
        return answer
    refused = _are_refused(request)
    error_type: ErrorType = "invalid_arguments" if refused else "permanent"
    raise AttemptFailed(
        Failure(
            error_type=error_type, may_have_run=not refused, exception=ToolAnsweredError(answer)
        )
    )


def _are_refused(request: ToolCallRequest) -> bool:
    """Tell whether it is the arguments that LangChain does not take; the message alone does not say."""
    schema = getattr(request.tool, "tool_call_schema", None)
    validate = getattr(schema, "model_validate", None) or getattr(schema, "parse_obj", None)
    if validate is None:  # a schema as a dict, which nobody but the tool itself judges
        return False
    try:
        validate(request.tool_call["args"])
    except Exception:  # noqa: BLE001 - whatever it was, LangChain met it, too
        return True
    return False


def _answer(request: ToolCallRequest, ended: Ended) -> ToolMessage | Command[Any]:
    """Return what goes to LangChain."""
    if ended.error is None and ended.fallback is None:
        answer: ToolMessage | Command[Any] = ended.value
        return answer
    cause = None if ended.error is None else ended.error.__cause__
    if isinstance(cause, ToolAnsweredError):
        return cause.answer
    return ToolMessage(
        content=ended.text(MAX_CHARS),
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status="success" if ended.error is None else "error",
    )


def _surroundings(
    request: ToolCallRequest, label: ThreadLabel | None
) -> AbstractContextManager[None]:
    """Say which call, run and conversation the request belongs to; what the application named stays."""
    runtime: Any = request.runtime  # None outside a graph
    config = getattr(runtime, "config", None) or {}
    run_id = thread = None
    if current_frame.get().run_id is None:
        execution = getattr(runtime, "execution_info", None)
        run_id = getattr(execution, "run_id", None)  # where the application gave the graph one
        if run_id is None:  # LangGraph's server has it here
            run_id = (config.get("configurable") or {}).get("run_id")
    if current_thread() is None and thread_from_baggage() is None:
        thread = thread_in(config)
    return tool_context(
        call_id=request.tool_call["id"],
        run_id=as_id(run_id),
        thread=as_id(thread),
        thread_label=label,
    )
