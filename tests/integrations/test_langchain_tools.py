"""The tools of a LangChain agent under guard: real agents and graphs, a model that follows a script."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import ValidationError

import toolmend
from tests.integrations.langchain_agent import (
    MODES,
    Body,
    Hang,
    Script,
    asking,
    invoke,
    run_agent,
)
from toolmend.integrations.langchain import ToolmendMiddleware
from toolmend.telemetry import names

FAST = toolmend.Retry(initial_seconds=0, max_seconds=0)
SEARCH = asking(("search", {"query": "weather"}))


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@toolmend.tool_call
def archive(query: str) -> dict[str, str]:
    return {"archived": query}


@toolmend.tool_call
async def archive_later(query: str) -> str:
    return f"archived {query}"


@dataclass
class Case:
    """What a tool does under which settings, and what comes of it."""

    name: str
    acts: tuple[Any, ...]
    text: str
    settings: dict[str, Any] = field(default_factory=dict)
    runs: int = 1
    status: str = "error"
    outcome: str = "failed"
    outcomes: dict[str, str] = field(default_factory=dict)  # where the modes differ
    error_type: str = ""
    args: dict[str, Any] = field(default_factory=lambda: {"query": "weather"})
    tool_options: dict[str, Any] = field(default_factory=dict)


def executed(telemetry) -> list[tuple[str, str, str]]:
    """Return tool, outcome and error type of each call that was counted."""
    found = []
    for series, count in telemetry.points(names.TOOL_CALLS_EXECUTED.name).items():
        labels = dict(series)
        found += [(labels["tool"], labels["outcome"], labels.get("error_type", ""))] * int(count)
    return sorted(found)


UNKNOWN = "It may have happened all the same: do not repeat it, check first."
CASES = [
    Case("ok", ("sunny",), "sunny", status="success", outcome="ok"),
    Case(
        "about this argument",
        (ValueError("no such city"),),
        "no such city",
        error_type="permanent",
    ),
    Case(
        "anything else, which may have happened",
        (RuntimeError("boom"), "sunny"),
        f"search failed: a temporary error of the tool. {UNKNOWN}",
        {"retry": FAST},
        error_type="transient",
    ),
    Case(
        "transient, then ok",
        (ConnectionResetError(), "sunny"),
        "sunny",
        {"retry": FAST, "effect": "read"},
        runs=2,
        status="success",
        outcome="ok",
    ),
    Case(
        "never sent, then ok",
        (ConnectionRefusedError(), "sunny"),
        "sunny",
        {"retry": FAST},
        runs=2,
        status="success",
        outcome="ok",
    ),
    Case(
        "time limit of what may not be repeated",
        (Hang(0.5), "sunny"),
        f"search timed out after 0.05 s. {UNKNOWN}",
        {"retry": FAST, "timeout_seconds": 0.05},
        outcomes={"sync": "abandoned"},  # a thread cannot be stopped
        error_type="outcome_unknown",
    ),
    Case(
        "time limit, then ok",
        (Hang(0.5), "sunny"),
        "sunny",
        {"retry": FAST, "timeout_seconds": 0.05, "effect": "read"},
        runs=2,
        status="success",
        outcome="ok",
    ),
    Case(
        "own classifier",
        (RuntimeError("boom"),),
        "search is unavailable. Use another way.",
        {"classify": lambda error: "denied"},
        error_type="denied",
    ),
    Case(
        "default value",
        (ConnectionRefusedError(),),
        "no results\n(degraded: search is unavailable, this is a default value)",
        {"retry": None, "fallback": toolmend.Fallback(value="no results")},
        status="success",
        outcome="degraded",
        error_type="transient",
    ),
    Case(
        "another tool",
        (ConnectionRefusedError(),),
        '{"archived":"weather"}',
        {"retry": None, "fallback": toolmend.Fallback(tool=archive)},
        status="success",
        outcome="degraded",
        error_type="transient",
    ),
    Case(
        "a human",
        (RuntimeError("boom"),),
        "search could not do it, so a human was asked (ticket T-7). "
        "If there is no answer within 3600 s: go on without it.",
        {"fallback": toolmend.Fallback(human=lambda escalation: "T-7")},
        outcome="degraded",
        error_type="transient",
    ),
    Case(
        "answered with an error by the tool itself",
        (ToolException("not today"),),
        "not today",
        tool_options={"handle_tool_error": True},
        error_type="permanent",
    ),
    Case(
        "arguments that LangChain refuses",
        ("sunny",),
        "Error invoking tool 'search' with kwargs {'question': 'weather'} with error:\n"
        " query: Field required\n"
        " Please fix the error and try again.",
        args={"question": "weather"},
        runs=0,
        error_type="invalid_arguments",
    ),
    Case(
        "arguments that a schema of ours refuses",
        ("sunny",),
        'The arguments of search are not valid. query: "weather" is not one of "snow" '
        "(allowed: ['snow']) [enum]. "
        "Fix them and call it again.",
        {"arguments_schema": {"properties": {"query": {"enum": ["snow"]}}}},
        runs=0,
        error_type="invalid_arguments",
    ),
    Case(
        "large arguments, which are LangChain's matter",
        ("sunny",),
        "sunny",
        args={"query": "x" * 300_000},
        status="success",
        outcome="ok",
    ),
    Case(
        "a result that a check refuses",
        ("sunny",),
        f"search returned malformed data. {UNKNOWN}",
        {"check_result": lambda message: message.content != "sunny", "strict_result": True},
        error_type="invalid_result",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_call_ends_in_one_message_and_the_agent_goes_on(case, mode, telemetry) -> None:
    body = Body(case.acts)
    middleware = ToolmendMiddleware(tools={"search": case.settings})
    [answer] = run_agent(
        mode, middleware, [body.tool(**case.tool_options)], asking(("search", case.args))
    )
    assert answer.content == case.text
    assert (answer.status, answer.name, answer.tool_call_id) == (case.status, "search", "call_1")
    assert len(body.queries) == case.runs
    assert [one for one in executed(telemetry) if one[0] == "search"] == [
        ("search", case.outcomes.get(mode, case.outcome), case.error_type)
    ]
    assert sum(telemetry.points(names.FAULTS.name).values()) == 0


def stripped(values: dict[str, Any]) -> dict[str, Any]:
    return {"query": values["query"].strip()}


def stripped_in_place(values: dict[str, Any]) -> dict[str, Any]:
    values["query"] = values["query"].strip()
    return values


@pytest.mark.parametrize("prepare", [stripped, stripped_in_place])
def test_arguments_are_prepared_for_the_tool_and_not_in_the_history(prepare, mode) -> None:
    body = Body(("sunny",))
    middleware = ToolmendMiddleware(tools={"search": {"prepare_arguments": prepare}})
    asked = asking(("search", {"query": "  weather "}))
    run_agent(mode, middleware, [body.tool()], asked)
    assert body.queries == ["weather"]
    assert asked.tool_calls[0]["args"] == {"query": "  weather "}


def test_arguments_may_have_any_name(mode) -> None:
    """Those that the guard's own functions have, too."""
    seen: list[Any] = []

    @tool
    def search(function: str, request: str, values: str) -> str:
        """Finds."""
        seen.append((function, request, values))
        return "found"

    args = {"function": "a", "request": "b", "values": "c"}
    [answer] = run_agent(mode, ToolmendMiddleware(), [search], asking(("search", args)))
    assert (answer.content, seen) == ("found", [("a", "b", "c")])


def test_default_is_what_a_tool_leaves_out(mode) -> None:
    listed, other = Body((ConnectionResetError(),)), Body((ConnectionResetError(),))
    middleware = ToolmendMiddleware(
        tools={"search": {"effect": "read"}}, default={"retry": FAST, "breaker": None}
    )
    asked = asking(("search", {"query": "a"}), ("other", {"query": "b"}))
    run_agent(mode, middleware, [listed.tool(), other.tool("other")], asked)
    assert (len(listed.queries), len(other.queries)) == (3, 1)
    with pytest.raises(TypeError, match="search has no breaker"):
        middleware.breaker("search")


def test_an_open_breaker_refuses_without_running_the_tool(mode, telemetry) -> None:
    body = Body((ConnectionResetError(),))
    middleware = ToolmendMiddleware(tools={"search": {"breaker": toolmend.Breaker(failures=2)}})
    turns = [asking(("search", {"query": "q"}), first=number) for number in (1, 2, 3)]
    answers = run_agent(mode, middleware, [body.tool()], *turns)
    assert len(body.queries) == 2
    assert answers[2].content == "search is unavailable. Retry in 60 s."
    assert (answers[2].status, answers[2].tool_call_id) == ("error", "call_3")
    assert middleware.breaker("search").state == "open"
    assert middleware.available_tools(["search", "other"]) == ("other",)
    counted = telemetry.total(names.TOOL_CALLS_EXECUTED.name, error_type="breaker_open")
    assert counted == 1
    middleware.breaker("search").reset()
    assert middleware.available_tools(["search"]) == ("search",)


def test_a_breaker_can_be_forced_before_the_first_call(mode) -> None:
    body = Body(("sunny",))
    middleware = ToolmendMiddleware()
    middleware.breaker("search").force_open()
    [answer] = run_agent(mode, middleware, [body.tool()], SEARCH)
    assert (body.queries, answer.status) == ([], "error")


def test_wrong_arguments_do_not_open_the_breaker(mode) -> None:
    middleware = ToolmendMiddleware(tools={"search": {"breaker": toolmend.Breaker(failures=1)}})
    run_agent(mode, middleware, [Body(("sunny",)).tool()], asking(("search", {})))
    assert middleware.breaker("search").state == "closed"


def test_parallel_calls_each_get_their_answer(mode, telemetry) -> None:
    """They run at the same time: each waits for the other."""
    both = threading.Barrier(2, timeout=5)

    @tool
    def meet(query: str) -> str:
        """Waits for the other call."""
        both.wait()
        if query == "b":
            raise ValueError("b is wrong")
        return f"met {query}"

    asked = asking(("meet", {"query": "a"}), ("meet", {"query": "b"}), ("nowhere", {}))
    answers = run_agent(mode, ToolmendMiddleware(), [meet], asked)
    assert [(one.tool_call_id, one.content) for one in answers[:2]] == [
        ("call_1", "met a"),
        ("call_2", "b is wrong"),
    ]
    # LangChain answers for tools that do not exist, and no tool call was run.
    assert "nowhere is not a valid tool" in answers[2].content
    assert telemetry.total(names.TOOL_CALLS_EXECUTED.name) == 2


def test_a_command_passes_untouched(mode, telemetry) -> None:
    made = Command(update={"messages": [ToolMessage("moved", tool_call_id="call_1")]})
    body = Body((made,))
    [answer] = run_agent(mode, ToolmendMiddleware(), [body.tool()], SEARCH)
    assert answer.content == "moved"
    assert telemetry.total(names.TOOL_CALLS_EXECUTED.name, outcome="ok") == 1


def test_the_handlers_own_value_goes_out(mode) -> None:
    """The very object, artifact and all."""
    message = ToolMessage("sunny", tool_call_id="call_1", artifact=object())
    seen: list[Any] = []

    class Watching(ToolmendMiddleware):
        def wrap_tool_call(self, request, handler):
            seen.append(super().wrap_tool_call(request, handler))
            return seen[0]

        async def awrap_tool_call(self, request, handler):
            seen.append(await super().awrap_tool_call(request, handler))
            return seen[0]

    run_agent(mode, Watching(), [Body((message,)).tool()], SEARCH)
    assert seen[0].artifact is message.artifact


@pytest.mark.parametrize("limit", [None, 5.0], ids=["here", "with a time limit"])
def test_an_interrupt_goes_to_langgraph_and_is_resumed(mode, limit, telemetry) -> None:
    if mode == "async" and sys.version_info < (3, 11):
        pytest.skip("interrupt() in a coroutine needs Python 3.11")
    asked: list[Any] = []

    def ask(query: str) -> str:
        """Asks a human."""
        asked.append(query)
        return f"approved: {interrupt('may I?')}"

    async def ask_later(query: str) -> str:
        return ask(query)

    body = Body(("unused",)).tool("ask")
    body.func, body.coroutine = ask, ask_later
    middleware = ToolmendMiddleware(tools={"ask": {"timeout_seconds": limit, "effect": "read"}})
    model = Script(replies=[asking(("ask", {"query": "delete"})), AIMessage("done")])
    agent = create_agent(model, [body], middleware=[middleware], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "T-1"}}
    stopped = invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)
    assert [one.value for one in stopped["__interrupt__"]] == ["may I?"]
    assert asked == ["delete"]  # not tried again
    resumed = invoke(mode, agent, Command(resume="yes"), config)
    assert [one.content for one in resumed["messages"][-2:]] == ["approved: yes", "done"]
    assert middleware.breaker("ask").state == "closed"


def test_a_refused_answer_to_an_interrupt_can_be_given_again(telemetry) -> None:
    @tool
    def ask(query: str) -> str:
        """Asks a human."""
        return f"approved for {interrupt('how long?', response_schema=int)} days"

    middleware = ToolmendMiddleware(tools={"ask": {"effect": "read", "retry": FAST}})
    model = Script(replies=[asking(("ask", {"query": "q"})), AIMessage("done")])
    agent = create_agent(model, [ask], middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "T-1"}}
    agent.invoke({"messages": [HumanMessage("go")]}, config)
    with pytest.raises(ValidationError):
        agent.invoke(Command(resume="long"), config)
    answered = agent.invoke(Command(resume=3), config)["messages"][-2]
    assert answered.content == "approved for 3 days"
    outcomes = [outcome for _, outcome, _ in executed(telemetry)]
    assert outcomes == ["cancelled", "cancelled", "ok"]


def test_a_sync_tool_of_an_async_agent_has_a_time_limit_too(telemetry) -> None:
    """LangChain runs it in a thread of its own, which goes on."""
    body = Body((Hang(0.4),)).tool()
    body.coroutine = None
    middleware = ToolmendMiddleware(tools={"search": {"timeout_seconds": 0.05}})
    [answer] = run_agent("async", middleware, [body], SEARCH)
    assert answer.content == f"search timed out after 0.05 s. {UNKNOWN}"


class Seen:
    """A model call of toolmend's own on a stored history, and what it was told."""

    def __init__(self) -> None:
        self.findings: list[Any] = []

    def ask(self, messages: list[Any], thread: str) -> None:
        call = toolmend.model_call(
            lambda messages: None,
            thread=thread,
            on_repair=lambda done: self.findings.extend(done.findings),
        )
        call(messages)


@pytest.mark.parametrize("limit", [None, 30.0], ids=["here", "with a time limit"])
def test_a_cancelled_agent_leaves_a_call_of_known_cause(limit, telemetry) -> None:
    started = asyncio.Event()

    class Slow(Body):
        async def coroutine(self, query: str) -> Any:
            started.set()
            return await super().coroutine(query)

    body = Slow((Hang(30),))
    model = Script(replies=[SEARCH, AIMessage("done")])
    middleware = ToolmendMiddleware(default={"timeout_seconds": limit, "effect": "read"})
    tools = [body.tool()]
    agent = create_agent(model, tools, middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "T-cancelled"}}

    async def main() -> list[Any]:
        task = asyncio.create_task(agent.ainvoke({"messages": [HumanMessage("go")]}, config))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await agent.aget_state(config)).values["messages"]

    stored = asyncio.run(main())
    assert stored[-1].tool_calls  # without an answer
    seen = Seen()
    seen.ask([*stored, HumanMessage("hello?")], "T-cancelled")
    [finding] = seen.findings
    assert (finding.kind, finding.cause, finding.call_id) == (
        "dangling_call",
        "cancelled",
        "call_1",
    )
    assert telemetry.total(names.TOOL_CALLS_EXECUTED.name, outcome="cancelled") == 1
    assert telemetry.total(names.DANGLING_CAUSES.name, cause="cancelled") == 1


def test_keyboard_interrupt_goes_on_and_is_remembered(telemetry) -> None:
    """One that reaches the thread which runs the tool; LangGraph has it for the caller."""
    node = ToolNode(
        [Body((KeyboardInterrupt(),)).tool()], wrap_tool_call=ToolmendMiddleware().wrap_tool_call
    )
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    history = [HumanMessage("go"), SEARCH]
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"messages": history}, {"configurable": {"thread_id": "T-keyboard"}})
    seen = Seen()
    seen.ask([*history, HumanMessage("hello?")], "T-keyboard")
    assert [one.cause for one in seen.findings] == ["cancelled"]


@pytest.mark.parametrize(
    ("config", "thread"),
    [
        ({"configurable": {"thread_id": "T-1"}}, "T-1"),
        ({"configurable": {"thread_id": 42}}, "42"),
        ({"configurable": {}}, None),
    ],
    ids=["text", "number", "none"],
)
def test_the_span_carries_the_call_and_the_conversation(config, thread, mode, telemetry) -> None:
    inside: list[Any] = []

    @tool
    def search(query: str) -> str:
        """Finds."""
        from toolmend._threads import current_thread

        inside.append(current_thread())
        return "sunny"

    run_agent(mode, ToolmendMiddleware(), [search], SEARCH, config=config)
    [span] = [span for span in telemetry.spans if span.name == "execute_tool search"]
    assert span.attributes["gen_ai.tool.call.id"] == "call_1"
    assert span.attributes.get("gen_ai.conversation.id") == thread
    assert inside == [thread]  # so that model calls of the tool's own are in it, too


def test_a_named_thread_wins_over_the_graphs(telemetry) -> None:
    with toolmend.thread("mine"):
        run_agent(
            "sync",
            ToolmendMiddleware(),
            [Body(("sunny",)).tool()],
            SEARCH,
            config={"configurable": {"thread_id": "T-1"}},
        )
    assert {span.attributes["gen_ai.conversation.id"] for span in telemetry.spans} == {"mine"}


@pytest.mark.parametrize("where", ["run_id", "configurable"])
def test_the_budget_of_a_run_ends_a_tool(where, mode) -> None:
    run_id = uuid4()
    config: Any = {"run_id": run_id} if where == "run_id" else {"configurable": {"run_id": run_id}}
    body = Body((ValueError("no such city"),))
    middleware = ToolmendMiddleware(tools={where: {"run_budget": 2}})
    turns = [asking((where, {"query": "q"}), first=number) for number in (1, 2, 3)]
    answers = run_agent(mode, middleware, [body.tool(where)], *turns, config=config)
    assert len(body.queries) == 2
    assert answers[2].content == (
        f"{where} failed 2 times in this run and is not tried again here. Use another way."
    )


async def ask_human(escalation: toolmend.Escalation) -> str:
    return "T-7"


@pytest.mark.parametrize(
    ("fallback", "text"),
    [
        (toolmend.Fallback(tool=archive_later), "archived weather"),
        (toolmend.Fallback(human=ask_human), "search could not do it, so a human was asked"),
    ],
    ids=["another tool", "a human"],
)
def test_an_async_fallback_answers_in_an_async_agent(fallback, text, telemetry) -> None:
    middleware = ToolmendMiddleware(tools={"search": {"retry": None, "fallback": fallback}})
    tools = [Body((ConnectionRefusedError(),)).tool()]
    [answer] = run_agent("async", middleware, tools, SEARCH)
    assert answer.content.startswith(text)
    with pytest.raises(toolmend.PolicyError, match="call ainvoke"):
        run_agent("sync", middleware, tools, SEARCH)


def test_a_tool_node_of_ones_own(mode, telemetry) -> None:
    body = Body((ConnectionResetError(), "sunny"))
    middleware = ToolmendMiddleware(tools={"search": {"effect": "read", "retry": FAST}})
    node = ToolNode(
        [body.tool()],
        wrap_tool_call=middleware.wrap_tool_call,
        awrap_tool_call=middleware.awrap_tool_call,
    )
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    config = {"configurable": {"thread_id": "T-1"}}
    answer = invoke(mode, graph, {"messages": [SEARCH]}, config)["messages"][-1]
    assert (answer.content, answer.status, len(body.queries)) == ("sunny", "success", 2)
    [span] = [one for one in telemetry.spans if one.name == "execute_tool search"]
    assert span.attributes["gen_ai.conversation.id"] == "T-1"


def test_arguments_that_a_tool_node_raises_about(mode, telemetry) -> None:
    """With handle_tool_errors=False LangChain's own refusal is an exception."""
    middleware = ToolmendMiddleware()
    node = ToolNode(
        [Body(("sunny",)).tool()],
        handle_tool_errors=False,
        wrap_tool_call=middleware.wrap_tool_call,
        awrap_tool_call=middleware.awrap_tool_call,
    )
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    answer = invoke(mode, graph, {"messages": [asking(("search", {}))]})["messages"][-1]
    assert answer.status == "error"
    assert "query: Field required" in answer.content
    counted = telemetry.total(names.TOOL_CALLS_EXECUTED.name, error_type="invalid_arguments")
    assert counted == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"tools": {"search": {"effect": "sometimes"}}}, toolmend.PolicyError),
        ({"tools": {"search": {"name": "find"}}}, toolmend.PolicyError),
        ({"default": {"result_schema": {"type": "string"}}}, toolmend.PolicyError),
        ({"tools": {"search": {"fallback": toolmend.Fallback(tool=len)}}}, toolmend.PolicyError),
        ({"default": {"time_limit": 3}}, TypeError),
    ],
    ids=["effect", "name", "result_schema", "unguarded fallback", "unknown option"],
)
def test_settings_that_cannot_work_are_refused_at_once(given, error) -> None:
    with pytest.raises(error):
        ToolmendMiddleware(**given)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "sys.modules['langchain'] = None\nimport toolmend.integrations.langchain",
            "pip install 'langchain>=1'",
        ),
        (
            "import toolmend, toolmend.integrations, toolmend.execution, toolmend.cli\n"
            "sys.exit(str([name for name in sys.modules if name.startswith('lang')]))",
            "[]",
        ),
    ],
    ids=["missing", "not asked for"],
)
def test_langchain_is_imported_by_its_integration_alone(code, said) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
