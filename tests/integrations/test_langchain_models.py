"""LangChain's model calls: refused without toolmend, accepted with it, counted once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

import toolmend
from tests.integrations.langchain_agent import MODES, asking, invoke
from toolmend.integrations.langchain import MendedModel, ToolmendMiddleware
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
