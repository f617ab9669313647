"""LangChain's model calls: refused without toolmend, accepted with it, counted once."""

from __future__ import annotations

import asyncio
import operator
import pickle
import sys
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

import toolmend
from tests.integrations.langchain_agent import MODES, asking, invoke
from toolmend.integrations.langchain import HealingMiddleware, MendedModel, ToolmendMiddleware
from toolmend.testing import problems


class RefusedError(Exception):
    """What a provider would have said."""


class Strict(BaseChatModel):
    """Refuses what providers refuse, and else says what it was given to say."""

    replies: list[Any] = Field(default_factory=list)
    seen: list[Any] = Field(default_factory=list)
    offered: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "strict"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "gpt-x", "ls_model_type": "chat"}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.offered.append([one.name for one in tools])
        return self

    def _answer(self, messages: Any) -> Any:
        self.seen.append(messages)
        found = problems(messages, format="langchain")
        if found:
            raise RefusedError(str(found[0]))
        return self.replies.pop(0) if self.replies else AIMessage("ok")

    def _generate(self, messages: Any, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(self, messages: Any, stop=None, run_manager=None, **kwargs: Any):
        self._answer(messages)
        for text in ("o", "k"):
            yield ChatGenerationChunk(message=AIMessageChunk(text))


BROKEN = [HumanMessage("q"), asking(("search", {"query": "x"})), HumanMessage("n")]
CLEAN = [HumanMessage("q"), AIMessage("a"), HumanMessage("n")]


@tool
def search(query: str) -> str:
    """Finds."""
    return "sunny"


@tool
def hang(query: str) -> str:
    """Is stopped by the user."""
    raise KeyboardInterrupt


@tool
def confirm(query: str) -> str:
    """Ask."""
    return interrupt(query)


def skip_where_nothing_can_pause(mode: str) -> None:
    if mode == "async" and sys.version_info < (3, 11):
        pytest.skip("interrupt() inside a coroutine needs Python 3.11")


async def _collected(pieces: Any) -> list[Any]:
    return [piece async for piece in pieces]


def _asked(model: Any, how: str, given: Any) -> str:
    if how == "invoke":
        return model.invoke(given).content
    if how == "ainvoke":
        return asyncio.run(model.ainvoke(given)).content
    if how == "stream":
        return "".join(piece.content for piece in model.stream(given))
    return "".join(piece.content for piece in asyncio.run(_collected(model.astream(given))))


HOW = ("invoke", "ainvoke", "stream", "astream")


@pytest.mark.parametrize("how", HOW)
def test_a_chain_is_refused_bare_and_accepted_mended(how, telemetry) -> None:
    with pytest.raises(RefusedError):
        _asked(Strict(), how, BROKEN)
    model = Strict()
    given = list(BROKEN)

    assert _asked(MendedModel(model), how, given) == "ok"

    assert given == BROKEN
    [messages] = model.seen
    assert [type(message) for message in messages] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        HumanMessage,
    ]
    assert telemetry.non_zero("toolmend.model_calls") == {
        (
            ("format", "langchain"),
            ("model", "gpt-x"),
            ("outcome", "repaired"),
            ("provider", "openai"),
        ): 1
    }
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    [span] = telemetry.spans
    assert span.name == "toolmend.model_call"


def test_a_chain_takes_what_a_prompt_makes_and_its_models_tools(telemetry) -> None:
    model = Strict()
    prompt = ChatPromptTemplate.from_messages(
        [SystemMessage("be kind"), MessagesPlaceholder("history")]
    )
    chain = prompt | MendedModel(model.bind(stop=["."]))

    assert chain.invoke({"history": BROKEN}).content == "ok"
    assert len(model.seen[0]) == 5
    assert telemetry.total("toolmend.model_calls", model="gpt-x") == 1


def test_the_thread_of_a_chain_is_that_of_its_config(telemetry) -> None:
    config: Any = {"configurable": {"thread_id": "T-1"}}
    MendedModel(Strict()).invoke(BROKEN, config)

    [span] = telemetry.spans
    assert span.attributes["gen_ai.conversation.id"] == "T-1"


def test_a_clean_history_goes_through_as_it_is(telemetry) -> None:
    model = Strict()
    MendedModel(model).invoke(CLEAN)

    assert all(sent is given for sent, given in zip(model.seen[0], CLEAN, strict=True))
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 1


def test_pairs_may_be_lists(telemetry) -> None:
    model = Strict()
    given: list[Any] = [["user", "q"], asking(("search", {"query": "x"})), ["user", "n"]]
    assert MendedModel(model).invoke(given).content == "ok"
    assert isinstance(model.seen[0][2], ToolMessage)


def test_what_is_no_history_goes_through() -> None:
    assert MendedModel(Strict()).invoke("hello").content == "ok"


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_goes_on_after_an_interruption_and_counts_it_once(mode, telemetry) -> None:
    """Interrupted during a tool, resumed with a new message of the user; several turns follow."""
    config: Any = {"configurable": {"thread_id": "T-1"}}
    saver = InMemorySaver()
    model = Strict(replies=[asking(("hang", {"query": "x"}))])
    agent = create_agent(model, [hang], middleware=[ToolmendMiddleware()], checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)

    for turn in range(4):
        answer = invoke(mode, agent, {"messages": [HumanMessage(f"turn {turn}")]}, config)
        assert answer["messages"][-1].content == "ok"

    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="repeat") == 3
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "cancelled"), ("tool", "hang")): 1
    }
    [tool_span] = [span for span in telemetry.spans if span.name == "execute_tool hang"]
    mended = [span for span in telemetry.spans if span.links]
    assert {link.context.span_id for span in mended for link in span.links} == {
        tool_span.context.span_id
    }
    assert {span.attributes["gen_ai.conversation.id"] for span in telemetry.spans} == {"T-1"}


@pytest.mark.parametrize("mode", MODES)
def test_the_same_without_toolmend_is_stuck(mode) -> None:
    config: Any = {"configurable": {"thread_id": "T-1"}}
    model = Strict(replies=[asking(("hang", {"query": "x"}))])
    agent = create_agent(model, [hang], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)

    for _ in range(2):
        with pytest.raises(RefusedError):
            invoke(mode, agent, {"messages": [HumanMessage("again")]}, config)


@pytest.mark.parametrize("mode", MODES)
def test_a_state_that_is_healed_has_no_repeats(mode, telemetry) -> None:
    config: Any = {"configurable": {"thread_id": "T-1"}}
    model = Strict(
        replies=[
            asking(("hang", {"query": "x"})),
            # The turn that heals asks for a tool itself: that call is left to run.
            asking(("search", {"query": "y"}), first=2),
        ]
    )
    healing = ToolmendMiddleware(heals_state=True)
    agent = create_agent(model, [hang, search], middleware=[healing], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)

    for turn in range(3):
        messages = invoke(mode, agent, {"messages": [HumanMessage(f"t{turn}")]}, config)["messages"]

    assert not problems(messages, format="langchain")
    assert [type(message).__name__ for message in messages[:7]] == [
        *("HumanMessage", "AIMessage", "ToolMessage", "HumanMessage"),
        *("AIMessage", "ToolMessage", "AIMessage"),
    ]
    assert messages[5].content == "sunny"
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="repeat") == 0


def test_observing_changes_neither_request_nor_state(telemetry) -> None:
    observing = ToolmendMiddleware(policy=toolmend.Policy(mode="observe"), heals_state=True)
    agent = create_agent(Strict(), [search], middleware=[observing])
    with pytest.raises(RefusedError):
        agent.invoke({"messages": BROKEN})

    assert telemetry.total("toolmend.model_calls", outcome="observed") == 1


@pytest.mark.parametrize("withholds", [False, True])
def test_a_tool_that_nobody_can_call_is_not_offered(withholds) -> None:
    model = Strict()
    middleware = ToolmendMiddleware(withholds_tools=withholds)
    agent = create_agent(model, [hang, search], middleware=[middleware])
    middleware.breaker("hang").force_open()
    agent.invoke({"messages": CLEAN})

    assert model.offered == [["search"] if withholds else ["hang", "search"]]


@pytest.mark.parametrize("mode", MODES)
def test_an_agents_stream_is_mended_too(mode, telemetry) -> None:
    agent = create_agent(Strict(), [search], middleware=[ToolmendMiddleware()])
    given = {"messages": BROKEN}
    if mode == "sync":
        pieces = list(agent.stream(given, stream_mode="messages"))
    else:
        pieces = asyncio.run(_collected(agent.astream(given, stream_mode="messages")))

    assert "".join(piece.content for piece, _ in pieces) == "ok"
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1


@pytest.mark.parametrize(
    "options",
    [{"policy": "drop"}, {"spans": "sometimes"}, {"thread_label": "short"}],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize("kind", [ToolmendMiddleware, lambda **o: MendedModel(Strict(), **o)])
def test_options_that_cannot_work_are_refused(kind, options) -> None:
    with pytest.raises(toolmend.PolicyError):
        kind(**options)


def test_healing_is_one_of_three() -> None:
    with pytest.raises(toolmend.PolicyError, match='heals_state is True, False or "nested"'):
        ToolmendMiddleware(heals_state="parent")  # type: ignore[arg-type]


class Plain(ToolmendMiddleware):
    """One that cannot heal."""


class First(HealingMiddleware, HumanInTheLoopMiddleware):
    """Two hooks behind the model, of which one would never be called."""


class Last(HumanInTheLoopMiddleware, HealingMiddleware):
    """Likewise."""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Plain, "heals_state: derive Plain from HealingMiddleware"),
        (First, "list HumanInTheLoopMiddleware as a middleware of its own"),
        (lambda **options: HealingMiddleware.__init__(Last.__new__(Last), **options), "of its own"),
    ],
    ids=["plain", "first", "last"],
)
def test_classes_that_cannot_heal_say_so(kind: Any, said: str) -> None:
    with pytest.raises(toolmend.PolicyError, match=said):
        kind(heals_state=True)


def test_a_healing_middleware_is_of_a_class_like_any_other() -> None:
    made = ToolmendMiddleware(heals_state=True)
    assert type(made) is HealingMiddleware
    assert pickle.loads(pickle.dumps(type(made))) is HealingMiddleware
    agent = create_agent(Strict(), [search], middleware=[HealingMiddleware(heals_state=False)])
    assert len(agent.invoke({"messages": BROKEN})["messages"]) == len(BROKEN) + 1


DELTA = [ToolMessage("42 degrees", tool_call_id="c1"), HumanMessage("thanks")]
CONTINUING: dict[str, Any] = {"previous_response_id": "resp_1"}


class Lenient(Strict):
    """Holds the beginning of the conversation itself, and takes whatever comes."""

    model_kwargs: dict[str, Any] = Field(default_factory=dict)

    def _answer(self, messages: Any) -> Any:
        self.seen.append(messages)
        return AIMessage("ok")


@pytest.mark.parametrize("where", ["call", "bound", "model", "middleware"])
def test_what_continues_a_history_on_the_server_is_left_alone(where: str) -> None:
    model = Lenient(model_kwargs=CONTINUING if where == "model" else {})
    if where == "call":
        MendedModel(model).invoke(DELTA, **CONTINUING)
    elif where == "bound":
        MendedModel(model.bind(**CONTINUING)).invoke(DELTA)
    elif where == "model":
        MendedModel(model).invoke(DELTA)
    else:
        continuing = Continuing()
        agent = create_agent(model, [], middleware=[continuing, ToolmendMiddleware()])
        agent.invoke({"messages": DELTA})

    assert [type(message) for message in model.seen[0]] == [ToolMessage, HumanMessage]


class Continuing(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(model_settings=CONTINUING))


def test_healing_takes_nothing_real_out_of_the_state() -> None:
    agent = create_agent(Lenient(), [], middleware=[ToolmendMiddleware(heals_state=True)])
    messages = agent.invoke({"messages": [*DELTA, *BROKEN]})["messages"]

    assert "42 degrees" in [message.content for message in messages]


class PlainState(AgentState):
    messages: Annotated[list, operator.add]  # type: ignore[misc]  # another reducer than LangGraph's own


def test_a_state_with_another_reducer_is_not_healed() -> None:
    healing = ToolmendMiddleware(heals_state=True)
    agent = create_agent(Strict(), [search], middleware=[healing], state_schema=PlainState)
    broken = [message.model_copy(update={"id": None}) for message in BROKEN]
    messages = agent.invoke({"messages": broken})["messages"]

    assert [type(message) for message in messages] == [
        HumanMessage,
        AIMessage,
        HumanMessage,
        AIMessage,
    ]


class Mine(HealingMiddleware):
    """Somebody's own."""


class Always(HealingMiddleware):
    """Another one, that decides by itself."""

    def __init__(self) -> None:
        super().__init__(heals_state="nested")


class Noting(HealingMiddleware):
    """One with a hook of its own."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        self.saw = len(state["messages"])
        return super().after_model(state, runtime)


@pytest.mark.parametrize(
    "middleware",
    [
        Mine,
        Always,
        Noting,
        lambda: ToolmendMiddleware(
            heals_state=True, policy=toolmend.Policy(mode=lambda _: "repair")
        ),
    ],
    ids=["subclass", "by-itself", "own-hook", "mode-by-thread"],
)
def test_healing_also_holds_for(middleware: Any) -> None:
    made = middleware()
    assert isinstance(made, ToolmendMiddleware)
    agent = create_agent(Strict(), [search], middleware=[made])
    messages = agent.invoke({"messages": BROKEN})["messages"]

    assert isinstance(messages[2], ToolMessage)
    if isinstance(made, Noting):
        assert made.saw == 4


def test_the_state_keeps_the_text_that_was_sent() -> None:
    policy = toolmend.Policy(text_from_record=True, placeholder="{tool_name}: {cause}")
    config: Any = {"configurable": {"thread_id": "T-text"}}
    model = Strict(replies=[asking(("hang", {"query": "x"}))])
    healing = ToolmendMiddleware(heals_state=True, policy=policy)
    agent = create_agent(model, [hang], middleware=[healing], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        agent.invoke({"messages": [HumanMessage("go")]}, config)
    messages = agent.invoke({"messages": [HumanMessage("again")]}, config)["messages"]

    assert model.seen[1][2].content == messages[2].content == "hang: cancelled"


def test_an_async_callback_is_awaited_in_streams_too(telemetry) -> None:
    told: list[Any] = []

    async def on_repair(repair: Any) -> None:
        told.append(repair)

    pieces = MendedModel(Strict(), on_repair=on_repair).astream(BROKEN)
    assert "".join(piece.content for piece in asyncio.run(_collected(pieces))) == "ok"

    assert len(told) == 1
    assert telemetry.total("toolmend.faults") == 0


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_waits_for_a_human_is_answered_by_the_human(mode, heals, telemetry) -> None:
    skip_where_nothing_can_pause(mode)
    config: Any = {"configurable": {"thread_id": f"T-{mode}-{heals}"}}
    model = Strict(replies=[asking(("confirm", {"query": "sure?"}))])
    agent = create_agent(
        model,
        [confirm],
        middleware=[ToolmendMiddleware(heals_state=heals)],
        checkpointer=InMemorySaver(),
    )
    invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)
    messages = invoke(mode, agent, Command(resume="yes"), config)["messages"]

    assert [message.content for message in messages] == ["go", "", "yes", "ok"]
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 0


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_new_message_instead_of_the_humans_answer_goes_on(mode, heals, telemetry) -> None:
    skip_where_nothing_can_pause(mode)
    config: Any = {"configurable": {"thread_id": f"N-{mode}-{heals}"}}
    # One call is done, its result not yet in the state; the other one waits.
    asked = asking(("search", {"query": "x"}), ("confirm", {"query": "sure?"}))
    agent = create_agent(
        Strict(replies=[asked]),
        [search, confirm],
        middleware=[ToolmendMiddleware(heals_state=heals)],
        checkpointer=InMemorySaver(),
    )
    for text in ("go", "forget it", "more"):
        messages = invoke(mode, agent, {"messages": [HumanMessage(text)]}, config)["messages"]

    assert messages[-1].content == "ok"
    assert bool(problems(messages, format="langchain")) is not heals
    dangling = "toolmend.tool_calls.dangling"
    assert telemetry.total(dangling, recurrence="first") == 2
    assert telemetry.total(dangling, recurrence="repeat") == (0 if heals else 2)


APPROVED: Any = {"type": "approve"}
REJECTED: Any = {"type": "reject", "message": "no"}


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize(
    ("decisions", "ran"),
    [([APPROVED, REJECTED], 1), ([REJECTED, REJECTED], 0), ([APPROVED, APPROVED], 2)],
    ids=["one", "none", "both"],
)
@pytest.mark.parametrize("mode", MODES)
def test_calls_that_a_human_judges_are_left_to_them(
    mode, decisions, ran, is_last, heals, telemetry
) -> None:
    skip_where_nothing_can_pause(mode)
    middleware = [
        HumanInTheLoopMiddleware(interrupt_on={"search": True}),
        ToolmendMiddleware(heals_state=heals),
    ]
    config: Any = {"configurable": {"thread_id": f"H-{mode}-{is_last}-{heals}-{ran}"}}
    agent = create_agent(
        Strict(replies=[asking(("search", {"query": "x"}), ("search", {"query": "y"}))]),
        [search],
        middleware=middleware if is_last else middleware[::-1],
        checkpointer=InMemorySaver(),
    )
    invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)
    messages = invoke(mode, agent, Command(resume={"decisions": decisions}), config)["messages"]

    assert messages[-1].content == "ok"
    assert [message.content for message in messages].count("sunny") == ran
    assert telemetry.total("toolmend.tool_calls.dangling") == 0
    assert telemetry.total("toolmend.tool_calls.executed") == ran


class PydanticState(BaseModel):
    messages: Annotated[list[Any], add_messages]


@pytest.mark.parametrize("state", [MessagesState, PydanticState])
@pytest.mark.parametrize("parent_heals", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_of_messages_shared_with_a_parent_graph_the_parent_heals(
    mode, parent_heals, state, telemetry
) -> None:
    healing: Any = ToolmendMiddleware(heals_state=True)
    agent = create_agent(Strict(), [search], middleware=[healing])
    builder = StateGraph(state).add_node("agent", agent).add_edge(START, "agent")
    if parent_heals:
        builder.add_node("heal", healing.after_model).add_edge("agent", "heal")
    parent = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": f"P-{mode}-{parent_heals}-{state.__name__}"}}
    invoke(mode, parent, {"messages": BROKEN}, config)
    messages = invoke(mode, parent, {"messages": [HumanMessage("more")]}, config)["messages"]

    # What is mended in the agent alone would come out behind everything else.
    result = ["ToolMessage"] if parent_heals else []
    assert [type(message).__name__ for message in messages] == [
        *("HumanMessage", "AIMessage", *result, "HumanMessage"),
        *("AIMessage", "HumanMessage", "AIMessage"),
    ]
    dangling = "toolmend.tool_calls.dangling"
    assert telemetry.total(dangling, recurrence="first") == 1
    assert telemetry.total(dangling, recurrence="repeat") == (0 if parent_heals else 1)
    assert telemetry.total("toolmend.faults") == 0


@pytest.mark.parametrize("heals", [True, "nested"])
def test_of_messages_of_its_own_a_nested_agent_heals_where_it_is_told(heals, telemetry) -> None:
    agent = create_agent(Strict(), [search], middleware=[ToolmendMiddleware(heals_state=heals)])

    @entrypoint(checkpointer=InMemorySaver())
    def chat(messages: list[Any], *, previous: list[Any] | None = None) -> Any:
        found = agent.invoke({"messages": [*(previous or []), *messages]})["messages"]
        return entrypoint.final(value=found, save=found)

    config: Any = {"configurable": {"thread_id": f"E-{heals}"}}
    chat.invoke(BROKEN, config)
    messages = chat.invoke([HumanMessage("more")], config)

    assert bool(problems(messages, format="langchain")) is (heals != "nested")
    repeats = telemetry.total("toolmend.tool_calls.dangling", recurrence="repeat")
    assert repeats == (0 if heals == "nested" else 1)


@pytest.mark.parametrize("mode", MODES)
def test_streams_show_what_healing_writes_as_its_node_alone(mode, telemetry) -> None:
    agent = create_agent(Strict(), [search], middleware=[ToolmendMiddleware(heals_state=True)])
    given = {"messages": BROKEN}
    if mode == "sync":
        pieces = list(agent.stream(given, stream_mode="messages"))
    else:
        pieces = asyncio.run(_collected(agent.astream(given, stream_mode="messages")))
    node = "ToolmendMiddleware.after_model"

    shown = [piece for piece, about in pieces if about["langgraph_node"] != node]
    assert "".join(piece.content for piece in shown) == "ok"
    written = [type(piece) for piece, about in pieces if about["langgraph_node"] == node]
    assert written == [RemoveMessage, ToolMessage]
