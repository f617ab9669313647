"""LangChain: histories mended and tools guarded, as middleware of ``create_agent`` and in chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import RemoveMessage
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
except ImportError as error:
    raise ImportError(
        "toolmend.integrations.langchain needs LangChain 1 or newer: pip install 'langchain>=1'"
    ) from error

from toolmend._arguments import thread_in
from toolmend._known_causes import KnownCauses
from toolmend._threads import as_id
from toolmend.errors import PolicyError
from toolmend.formats import FORMATS
from toolmend.integrations.langchain_models import MendedModel, send_mended, unbound
from toolmend.integrations.langchain_tools import ToolGuards
from toolmend.integrations.sdk_requests import checked_instrumentation
from toolmend.mend import repair
from toolmend.settings import settings
from toolmend.telemetry.faults import guard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command

    from toolmend._run import OnRepair
    from toolmend.execution.breaker import CircuitBreaker
    from toolmend.execution.options import ToolSettings
    from toolmend.mending.policy import Policy
    from toolmend.settings import Spans, ThreadLabel

    # The releases of LangChain differ in how many parameters it has at run time.
    _Middleware = AgentMiddleware[Any, Any, Any]
else:
    _Middleware = AgentMiddleware

__all__ = ["HealingMiddleware", "MendedModel", "ToolmendMiddleware"]

HealsState = Literal[True, False, "nested"]
_FORMAT: Final = "langchain"


class ToolmendMiddleware(_Middleware):
    """Mends what an agent sends to its model, and guards its tools.

    For ``create_agent(middleware=[…])``; put it last in the list, nearest to model and tools. For a graph
    of one's own: ``ToolNode(tools, wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call)``
    and ``MendedModel``.

    What a tool returns goes on untouched; a failure becomes a ``ToolMessage`` with ``status="error"``.
    Interrupts and cancellations go on to LangGraph. Every tool has a breaker of its own, which all agents
    with the same middleware share. LangChain judges the arguments, and answers calls of tools that do not
    exist.

    Args:
        tools: how tools are guarded, by name, with the options of ``toolmend.tool_call``. ``name`` and
            ``result_schema`` do not apply; ``check_result`` gets the ``ToolMessage`` or ``Command``.
        default: what a tool's own settings leave out, and all there is for tools not listed.
        policy: what to do about faults of the history. ``TOOLMEND_MODE`` wins over its mode.
        spans: of model calls: ``always``, ``repairs`` or ``never``; else as ``TOOLMEND_SPANS`` says.
        thread_label: ``"hash"`` keeps ids of conversations out of the telemetry of model and tool calls.
        on_repair: called with each ``Repair`` before the model call.
        heals_state: write the mended history into the graph's state behind each model call, so that its
            checkpoint is mended once, and not every request anew. Inside another graph, which may share
            its messages, an agent does so under ``"nested"`` alone. Derive a class of your own from
            ``HealingMiddleware`` for it.
        withholds_tools: do not offer tools to the model whose breaker lets no call through.

    Raises:
        PolicyError: an option that cannot work.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, ToolSettings] | None = None,
        default: ToolSettings | None = None,
        policy: Policy | None = None,
        spans: Spans | None = None,
        thread_label: ThreadLabel | None = None,
        on_repair: OnRepair | None = None,
        heals_state: HealsState = False,
        withholds_tools: bool = False,
    ) -> None:
        super().__init__()
        self.tools = []  # the attribute by which LangChain's middleware brings tools of its own
        self._guards = ToolGuards(tools=tools, default=default, thread_label=thread_label)
        self._instrumentation = checked_instrumentation(
            policy=policy, spans=spans, thread_label=thread_label, on_repair=on_repair
        )
        self._withholds_tools = withholds_tools
        if heals_state not in get_args(HealsState):
            raise PolicyError(f'heals_state is True, False or "nested"; got {heals_state!r}')
        self._heals_state = heals_state
        if type(self) is ToolmendMiddleware and heals_state:
            # A class of its own, since LangChain makes a node of every hook that a class has.
            self.__class__ = HealingMiddleware
        elif heals_state and not isinstance(self, HealingMiddleware):
            raise PolicyError(f"heals_state: derive {type(self).__name__} from HealingMiddleware")

    @property
    def name(self) -> str:
        """The name of its nodes in the graph."""
        return ToolmendMiddleware.__name__

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model, its history mended."""
        asked = self._offering(request)
        response: ModelResponse[Any] = send_mended(
            self._instrumentation,
            request.model,
            request.messages,
            lambda messages: handler(_with_messages(asked, messages)),
            config=_config_of(request.runtime),
            settings=_settings(request),
        )
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model, its history mended, on asyncio's loop."""
        asked = self._offering(request)
        response: ModelResponse[Any] = await send_mended(
            self._instrumentation,
            request.model,
            request.messages,
            lambda messages: handler(_with_messages(asked, messages)),
            is_async=True,
            config=_config_of(request.runtime),
            settings=_settings(request),
        )
        return response

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run one tool call under its guard.

        Raises:
            PolicyError: the fallback of the tool is async.
        """
        return self._guards.run(request, handler)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Run one tool call under its guard, on asyncio's loop."""
        return await self._guards.run_async(request, handler)

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the breaker of a tool.

        Args:
            name: of the tool.

        Raises:
            TypeError: it has none, by its settings.
        """
        return self._guards.breaker(name)

    def available_tools(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of some tools whose breaker would let a call through now.

        Args:
            names: of the tools.
        """
        return self._guards.available_tools(names)

    def _offering(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request without the tools that nobody can call now."""
        if not self._withholds_tools:
            return request
        names = [getattr(tool, "name", None) for tool in request.tools]
        available = set(self.available_tools(name for name in names if isinstance(name, str)))
        kept = [
            tool
            for tool, name in zip(request.tools, names, strict=True)
            if not isinstance(name, str) or name in available
        ]
        return request if len(kept) == len(names) else request.override(tools=kept)


class HealingMiddleware(ToolmendMiddleware):
    """The one that takes part behind the model, too, and mends the state there; for classes of one's own.

    Args:
        heals_state: as in ``ToolmendMiddleware``, which takes the other options, too.
        **options: those.

    Raises:
        PolicyError: an option that cannot work, or another base class that has ``after_model``, too.
    """

    def __init__(self, *, heals_state: HealsState = True, **options: Any) -> None:
        for base in type(self).__mro__:
            is_other = not issubclass(base, ToolmendMiddleware) and base is not AgentMiddleware
            if is_other and {"after_model", "aafter_model"} & vars(base).keys():
                # One of both would never be called.
                raise PolicyError(
                    f"heals_state needs after_model for itself: list {base.__name__} as a middleware of its own"
                )
        super().__init__(heals_state=heals_state, **options)

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Return the state mended; what the model has just asked for may still run."""
        with guard("repair"):
            if not self._heals_state or (self._heals_state != "nested" and _is_nested(runtime)):
                # Of messages that the other graph shares, it would put new ones behind all of its own.
                return None
            messages = state["messages"] if isinstance(state, Mapping) else state.messages
            thread = as_id(thread_in(_config_of(runtime) or {}))
            mended = _healed(messages, self._instrumentation.policy, thread)
            if mended is not None:
                return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *mended]}
        return None

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Return the state mended, likewise."""
        return self.after_model(state, runtime)


def _healed(messages: Sequence[Any], policy: Policy, thread: str | None) -> Sequence[object] | None:
    """Return the messages of a state mended; None where there is nothing to do, or nothing may be done.

    Nothing real is taken out: what looks like a stray result may belong to what the provider holds. Only
    LangGraph's own reducer, which gives every message an id, knows how to replace what is there.
    """
    if settings().disabled or (settings().mode or policy.mode_for(thread)) != "repair":
        return None
    if not all(getattr(message, "id", None) for message in messages):
        return None
    if any(isinstance(message, RemoveMessage) for message in messages):
        return None
    policy = replace(policy, mode="repair", trailing="leave", orphans="keep")
    found = repair(messages, _FORMAT, policy)
    if found.changed and policy.text_from_record:
        # The same text as in the request.
        known = KnownCauses(found.findings, thread, messages, FORMATS[_FORMAT])
        found = repair(messages, _FORMAT, policy, known.by_id())
    return found.messages if found.changed else None


def _is_nested(runtime: Any) -> bool:
    """Tell whether a node of another graph runs this one: its namespace is then "node:task|node:task"."""
    namespace = getattr(getattr(runtime, "execution_info", None), "checkpoint_ns", None)
    if namespace is None:
        namespace = ((_config_of(runtime) or {}).get("configurable") or {}).get("checkpoint_ns")
    return "|" in (namespace or "")


def _config_of(runtime: Any) -> Any:
    """Return the config of the graph; before Python 3.11 LangGraph cannot tell coroutines of it otherwise."""
    thread_id = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
    if thread_id is not None:
        return {"configurable": {"thread_id": thread_id}}
    try:
        return get_config()
    except RuntimeError:  # outside a graph
        return None


def _settings(request: ModelRequest[Any]) -> list[Mapping[str, Any]]:
    """Return what the request will say beside its messages."""
    _, bound = unbound(request.model)
    return [*bound, request.model_settings]


def _with_messages(request: ModelRequest[Any], messages: Any) -> ModelRequest[Any]:
    return request if messages is request.messages else request.override(messages=messages)
