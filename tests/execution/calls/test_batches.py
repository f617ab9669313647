"""Answers to a model's message in every format: complete, in order, legal; dicts and objects of the SDKs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import toolmend
from tests.execution.calls.driving import QUICK, Refused, asked, make, raising
from toolmend.errors import PolicyError, UnrecognizedHistoryError
from toolmend.execution import Breaker, ToolContext, Tools, breaker_of, tool_context
from toolmend.testing import Reply, StrictProvider, ToolCall, assert_legal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.telemetry_capture import Captured

Asked = tuple[str, str, dict[str, Any]]


def chat(calls: list[Asked]) -> list[Any]:
    return [asked(*((call_id, name, json.dumps(given)) for call_id, name, given in calls))]


def chat_object(calls: list[Asked]) -> list[Any]:
    types = pytest.importorskip("openai.types.chat")
    return [types.ChatCompletionMessage.model_validate(chat(calls)[0])]


def responses(calls: list[Asked]) -> list[Any]:
    return [
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(given)}
        for call_id, name, given in calls
    ]


def responses_objects(calls: list[Asked]) -> list[Any]:
    types = pytest.importorskip("openai.types.responses")
    return [types.ResponseFunctionToolCall.model_validate(item) for item in responses(calls)]


def anthropic(calls: list[Asked]) -> list[Any]:
    blocks = [
        {"type": "tool_use", "id": call_id, "name": name, "input": given}
        for call_id, name, given in calls
    ]
    return [{"role": "assistant", "content": [{"type": "text", "text": "Looking."}, *blocks]}]


def anthropic_object(calls: list[Asked]) -> list[Any]:
    types = pytest.importorskip("anthropic.types")
    body = {
        **anthropic(calls)[0],
        "id": "msg_1",
        "type": "message",
        "model": "claude-x",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return [types.Message.model_validate(body)]


def gemini(calls: list[Asked]) -> list[Any]:
    parts = [
        {"functionCall": {"id": call_id, "name": name, "args": given}}
        for call_id, name, given in calls
    ]
    return [{"role": "model", "parts": parts}]


def gemini_object(calls: list[Asked]) -> list[Any]:
    types = pytest.importorskip("google.genai.types")
    return [types.Content.model_validate(gemini(calls)[0])]


def bedrock(calls: list[Asked]) -> list[Any]:
    blocks = [
        {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}
        for call_id, name, given in calls
    ]
    return [{"role": "assistant", "content": blocks}]


def langchain_object(calls: list[Asked]) -> list[Any]:
    messages = pytest.importorskip("langchain_core.messages")
    made = [{"id": call_id, "name": name, "args": given} for call_id, name, given in calls]
    return [messages.AIMessage(content="", tool_calls=made)]


@dataclass(frozen=True)
class Wire:
    format: str
    message: Callable[[list[Asked]], list[Any]]
    user: Any = None

    def history(self, message: list[Any], results: list[Any]) -> list[Any]:
        if self.message is anthropic_object:  # an answer carries more than a request may
            message = [{"role": "assistant", "content": message[0].content}]
        return [self.user or {"role": "user", "content": "go"}, *message, *results]


CONTENTS = {"role": "user", "parts": [{"text": "go"}]}
WIRES = {
    "openai-chat": Wire("openai-chat", chat),
    "openai-chat object": Wire("openai-chat", chat_object),
    "openai-responses": Wire("openai-responses", responses),
    "openai-responses objects": Wire("openai-responses", responses_objects),
    "anthropic": Wire("anthropic", anthropic),
    "anthropic object": Wire("anthropic", anthropic_object),
    "gemini": Wire("gemini", gemini, CONTENTS),
    "gemini object": Wire("gemini", gemini_object, CONTENTS),
    "bedrock": Wire("bedrock", bedrock, {"role": "user", "content": [{"text": "go"}]}),
    "langchain object": Wire("langchain", langchain_object),
}
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def told(format: str, results: list[Any]) -> list[tuple[str | None, str]]:
    """Return id and text of each result, in order."""
    found: list[tuple[str | None, str]] = []
    for result in results:
        match format:
            case "openai-chat":
                found.append((result["tool_call_id"], result["content"]))
            case "openai-responses":
                found.append((result["call_id"], result["output"]))
            case "langchain":
                found.append((result.tool_call_id, result.content))
            case "anthropic":
                found += [(block["tool_use_id"], block["content"]) for block in result["content"]]
            case "bedrock":
                answers = [block["toolResult"] for block in result["content"]]
                found += [(one["toolUseId"], one["content"][0]["text"]) for one in answers]
            case "gemini":
                for part in result["parts"]:
                    dumped = part if isinstance(part, dict) else part.model_dump(by_alias=True)
                    answer = dumped["functionResponse"]
                    [text] = answer["response"].values()
                    found.append((answer.get("id"), text))
    return found


def no_repairs(history: list[Any], format: str) -> None:
    assert_legal(history, format=format)  # type: ignore[arg-type]
    assert toolmend.check(history, format) == ()


def shop() -> Tools:
    tools = Tools()

    @tools.register(effect="read")
    def look(q: str = "") -> str:
        """Look something up."""
        return f"found {q}"

    @tools.register
    async def fail(q: str = "") -> None:
        raise ValueError("no such thing")

    @tools.register(effect="read", retry=None, timeout_seconds=0.05)
    async def hang(q: str = "") -> None:
        await asyncio.sleep(30)

    @tools.register(effect="read", retry=None, timeout_seconds=0.05)
    def hang_in_thread(q: str = "") -> None:
        threading.Event().wait(5)

    @tools.register(breaker=Breaker(failures=1))
    def broken(q: str = "") -> None:
        """Broken."""

    breaker_of(broken).force_open()
    return tools


CALLS: list[Asked] = [
    ("call_1", "hang", {}),
    ("call_2", "look", {"q": "tea"}),
    ("call_3", "fail", {}),
    ("call_4", "nobody", {"q": "x"}),
    ("call_5", "look", {"q": 3}),
    ("call_6", "hang_in_thread", {}),
    ("call_7", "broken", {}),
    ("call_8", "look", {"q": "milk"}),
]
TEXTS = [
    "hang timed out after 0.05 s.",
    "found tea",
    "no such thing",
    "There is no tool called 'nobody'. Use one of: ",
    "The arguments of look are not valid. ",
    "hang_in_thread timed out after 0.05 s.",
    "broken is unavailable.",
    "found milk",
]


def check_answers(wire: Wire, results: list[Any], texts: list[str]) -> None:
    found = told(wire.format, results)
    assert [call_id for call_id, _ in found] == [call_id for call_id, _, _ in CALLS]
    for (_, text), expected in zip(found, texts, strict=True):
        assert text.startswith(expected)


@each_wire
@pytest.mark.parametrize("way", ["run", "run_sync", "run, format named"])
def test_every_call_is_answered_in_order_and_the_history_is_legal(
    wire: Wire, way: str, telemetry: Captured
) -> None:
    message = wire.message(CALLS)
    given = message if wire.format == "openai-responses" else message[0]
    sunk: list[Any] = []
    if way == "run_sync":
        results = shop().run_sync(given, sink=sunk.append)
    else:
        named = wire.format if way == "run, format named" else None
        results = asyncio.run(shop().run(given, format=named, sink=sunk.append))
    check_answers(wire, results, TEXTS)
    assert sunk == [results]
    no_repairs(wire.history(message, results), wire.format)
    assert telemetry.total("toolmend.tool_calls.executed") == len(CALLS)


@each_wire
def test_a_cancelled_run_hands_over_a_legal_complete_answer_once(wire: Wire) -> None:
    message = wire.message([*CALLS, ("call_9", "stand_still", {})])
    given = message if wire.format == "openai-responses" else message[0]
    sunk: list[list[Any]] = []
    tools = shop()

    @tools.register
    async def stand_still(q: str = "") -> None:
        await asyncio.sleep(30)

    async def main() -> None:
        task = asyncio.ensure_future(tools.run(given, sink=sunk.append))
        await asyncio.sleep(0.4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    [results] = sunk
    found = told(wire.format, results)
    assert [call_id for call_id, _ in found] == [f"call_{n}" for n in range(1, 10)]
    assert [text for _, text in found][1:3] == ["found tea", "no such thing"]
    assert found[-1][1].startswith("This tool call was cancelled before a result.")
    no_repairs(wire.history(message, results), wire.format)


ERROR_MARKS: dict[str, Callable[[Any], list[bool]]] = {
    "anthropic": lambda results: [block.get("is_error", False) for block in results[0]["content"]],
    "gemini": lambda results: [
        "error" in part["functionResponse"]["response"] for part in results[0]["parts"]
    ],
    "langchain": lambda results: [one.status == "error" for one in results],
}


@pytest.mark.parametrize("wire", ["anthropic", "gemini", "langchain object"])
def test_failures_are_marked_where_a_format_can_say_so(wire: str) -> None:
    results = shop().run_sync(WIRES[wire].message(CALLS)[0])
    marks = ERROR_MARKS[WIRES[wire].format](results)
    assert marks == [True, False, True, True, True, True, True, False]


@each_wire
def test_a_message_that_asks_for_nothing_gets_nothing(wire: Wire) -> None:
    texts: dict[str, Any] = {
        "gemini": {"role": "model", "parts": [{"text": "done"}]},
        "bedrock": {"role": "assistant", "content": [{"text": "done"}]},
    }
    message = texts.get(wire.format, {"role": "assistant", "content": "done"})
    sunk: list[Any] = []
    assert shop().run_sync(message, format=wire.format, sink=sunk.append) == []
    assert sunk == [[]]


@pytest.mark.parametrize("message", [None, "text", b"bytes", 3, {"odd": 1}, {"choices": []}])
def test_what_is_no_message_is_refused_before_anything_runs(message: Any) -> None:
    with pytest.raises(UnrecognizedHistoryError):
        shop().run_sync(message)


# -- odd calls ------------------------------------------------------------------------------------


def test_arguments_that_cannot_be_read_are_told_to_the_model_alone() -> None:
    message = asked(
        ("c1", "look", '{"q": "te'), ("c2", "look", '{"q": "milk"}'), ("c3", "look", "[1]")
    )
    results = shop().run_sync(message)
    assert told("openai-chat", results) == [
        (
            "c1",
            "The arguments of look are not valid. They are no valid JSON. Fix them and call it again.",
        ),
        ("c2", "found milk"),
        (
            "c3",
            "The arguments of look are not valid. They must be one JSON object. Fix them and call it again.",
        ),
    ]


@pytest.mark.parametrize("written", ["", None, "{}"], ids=["empty", "none", "object"])
def test_no_arguments_are_no_arguments(written: Any) -> None:
    [result] = shop().run_sync(asked(("c1", "look", written)))
    assert result["content"] == "found "


HUGE: dict[str, str] = {
    "long": json.dumps({"q": "x" * 300_000}),
    "deep": '{"q": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep, parsed": '{"q": ' + "[" * 100 + "]" * 100 + "}",
    "not a number": '{"q": NaN}',
}


@pytest.mark.parametrize("written", HUGE.values(), ids=HUGE)
def test_absurd_arguments_are_refused(written: str) -> None:
    ran: list[Any] = []
    tools = Tools()
    tools.register(toolmend.tool_call(name="look")(lambda q=None: ran.append(q)))
    [result] = tools.run_sync(asked(("c1", "look", written)))
    assert result["content"].startswith("The arguments of look are not valid. ")
    assert len(result["content"]) < 2_000
    assert ran == []


def test_calls_of_gemini_without_ids_are_answered_by_name_and_order() -> None:
    parts = [{"functionCall": {"name": "look", "args": {"q": q}}} for q in ("a", "b", "a")]
    message = {"role": "model", "parts": parts}
    results = shop().run_sync(message)
    assert told("gemini", results) == [(None, "found a"), (None, "found b"), (None, "found a")]
    no_repairs([CONTENTS, message, *results], "gemini")


def test_spelling_of_gemini_follows_the_call() -> None:
    part = {"function_call": {"id": "c1", "name": "look", "args": {}}}
    [result] = shop().run_sync({"role": "model", "parts": [part]})
    assert list(result["parts"][0]) == ["function_response"]


WITHOUT_IDS: dict[str, tuple[str, Any, Any]] = {
    "openai-chat": ("openai-chat", asked((None, "look", "{}")), asked(("c2", "look", "{}"))),  # type: ignore[arg-type]
    "anthropic": (
        "anthropic",
        {"role": "assistant", "content": [{"type": "tool_use", "name": "look", "input": {}}]},
        anthropic([("c2", "look", {})])[0],
    ),
}


@pytest.mark.parametrize(("format", "message", "_other"), WITHOUT_IDS.values(), ids=WITHOUT_IDS)
def test_a_call_that_nothing_could_answer_is_not_run(
    format: str, message: Any, _other: Any
) -> None:
    ran: list[int] = []
    tools = Tools()
    tools.register(toolmend.tool_call(name="look")(lambda: ran.append(1)))
    assert tools.run_sync(message, format=format) == []
    assert ran == []


def test_a_call_without_an_id_does_not_cost_the_others_their_results() -> None:
    results = shop().run_sync(
        asked(("", "look", '{"q": "a"}'), ("c2", "look", '{"q": "b"}'), (None, "look", "{}"))  # type: ignore[arg-type]
    )
    assert told("openai-chat", results) == [("c2", "found b")]


def test_langchains_call_without_an_id_does_not_cost_the_others_their_results() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    calls = [{"id": None, "name": "look", "args": {}}, {"id": "c2", "name": "look", "args": {}}]
    results = shop().run_sync(messages.AIMessage(content="", tool_calls=calls))
    assert told("langchain", results) == [("c2", "found ")]


def test_langchains_unreadable_calls_are_answered_too() -> None:
    messages = pytest.importorskip("langchain_core.messages")
    message = messages.AIMessage(
        content="",
        tool_calls=[{"id": "c1", "name": "look", "args": {"q": "a"}}],
        invalid_tool_calls=[{"id": "c2", "name": "look", "args": '{"q', "error": "cut"}],
    )
    results = shop().run_sync(message)
    assert [call_id for call_id, _ in told("langchain", results)] == ["c1", "c2"]
    no_repairs(WIRES["langchain object"].history([message], results), "langchain")


def counting() -> tuple[Tools, list[tuple[str, str]]]:
    ran: list[tuple[str, str]] = []
    tools = Tools()

    @tools.register(effect="keyed")
    def pay(to: str, context: ToolContext) -> str:
        ran.append((to, context.idempotency_key))
        return f"paid {to}"

    return tools, ran


def test_one_call_sent_twice_is_run_once_and_answered_twice() -> None:
    tools, ran = counting()
    call = ("c1", "pay", '{"to": "a"}')
    results = tools.run_sync(asked(call, call, ("c2", "pay", '{"to": "a"}')))
    assert told("openai-chat", results) == [("c1", "paid a"), ("c1", "paid a"), ("c2", "paid a")]
    assert [to for to, _ in ran] == ["a", "a"]


def test_two_calls_under_one_id_are_both_run_and_have_keys_of_their_own() -> None:
    tools, ran = counting()
    message = asked(("c1", "pay", '{"to": "a"}'), ("c1", "pay", '{"to": "b"}'))
    results = tools.run_sync(message, run_id="one id")
    assert told("openai-chat", results) == [("c1", "paid a"), ("c1", "paid b")]
    assert {to for to, _ in ran} == {"a", "b"}
    assert len({key for _, key in ran}) == 2
    again, ran_again = counting()
    again.run_sync(message, run_id="one id")
    assert set(ran_again) == set(ran)  # a repetition of the same call finds its key again


@pytest.mark.parametrize("name", ["", "x" * 5_000, "lo ok", "\ud800"], ids=ascii)
def test_any_name_is_answered(name: str) -> None:
    [result] = shop().run_sync(asked(("c1", name, "{}")))
    assert result["tool_call_id"] == "c1"
    assert result["content"].startswith("There is no tool called ")
    json.dumps(result).encode()


def test_no_tools_at_all_are_told_so() -> None:
    [result] = Tools().run_sync(asked(("c1", "look", "{}")))
    assert result["content"] == "There are no tools."


def test_custom_tools_of_chat_take_their_text() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "custom", "custom": {"name": "grep", "input": "{free text"}}
        ],
    }
    tools = Tools()
    tools.register(toolmend.tool_call(name="grep")(lambda text: f"grep {text}"))
    results = tools.run_sync(message)
    assert told("openai-chat", results) == [("c1", "grep {free text")]
    no_repairs([{"role": "user", "content": "go"}, message, *results], "openai-chat")


def test_custom_shell_and_patch_calls_of_responses_get_results_of_their_own_kind() -> None:
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "custom_tool_call", "call_id": "c1", "name": "grep", "input": "free"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["rm"]}},
        {
            "type": "apply_patch_call",
            "call_id": "c4",
            "status": "completed",
            "operation": {"type": "create_file", "path": "x", "diff": "+x"},
        },
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c5",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
    ]
    tools = Tools()
    tools.register(toolmend.tool_call(name="grep")(lambda text: f"grep {text}"))

    @tools.register
    def shell(commands: list[str]) -> str:
        if commands == ["rm"]:
            raise ValueError("not allowed")
        return f"ran {commands}"

    @tools.register
    def apply_patch(type: str, path: str, diff: str) -> str:
        return f"patched {path}"

    @tools.register
    def local_shell(type: str, command: list[str], env: dict[str, str]) -> str:
        return f"ran {command}"

    results = tools.run_sync(items)
    assert results == [
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "grep free"},
        {
            "type": "shell_call_output",
            "call_id": "c2",
            "output": [
                {"stdout": "ran ['ls']", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            ],
        },
        {
            "type": "shell_call_output",
            "call_id": "c3",
            "output": [
                {"stdout": "", "stderr": "not allowed", "outcome": {"type": "exit", "exit_code": 1}}
            ],
        },
        {
            "type": "apply_patch_call_output",
            "call_id": "c4",
            "output": "patched x",
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "c5", "output": "ran ['ls']"},
    ]
    no_repairs([{"role": "user", "content": "go"}, *items, *results], "openai-responses")


def test_what_the_provider_runs_itself_is_left_to_it() -> None:
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "tea"}},
    ]
    message = {"role": "assistant", "content": blocks}
    results = shop().run_sync(message)
    assert told("anthropic", results) == [("c1", "found tea")]
    no_repairs([{"role": "user", "content": "go"}, message, *results], "anthropic")


def test_what_gemini_ran_itself_is_left_to_it() -> None:
    parts = [
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"functionCall": {"name": "look", "args": {"q": "tea"}}},
    ]
    message = {"role": "model", "parts": parts}
    results = shop().run_sync(message)
    assert told("gemini", results) == [(None, "found tea")]
    no_repairs([CONTENTS, message, *results], "gemini")


# -- whole conversations --------------------------------------------------------------------------

MODEL_CALLS = tuple(ToolCall(name, given) for _, name, given in CALLS)


def reply(body: Any, path: str) -> Reply:
    is_answered = any(
        mark in json.dumps(body)
        for mark in ('"tool_call_id"', "function_call_output", "tool_result", "functionResponse")
    )
    return Reply("done") if is_answered else Reply("Looking.", tool_calls=MODEL_CALLS)


@pytest.fixture
def closed() -> Iterator[ExitStack]:
    """Close the clients that a test makes."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider(reply) as provider:
        yield provider


def definitions(tools: Tools, format: str) -> list[dict[str, Any]]:
    made = tools.definitions(format, only_available=False)
    assert len(made) == len(tools)
    return made


def test_openai_chat_takes_the_definitions_and_the_answers(
    provider: StrictProvider, closed: ExitStack
) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)
    closed.callback(client.close)
    tools, history = shop(), [{"role": "user", "content": "go"}]
    given = definitions(tools, "openai-chat")
    for _ in range(2):
        answer = client.chat.completions.create(model="m", messages=history, tools=given)
        history += [answer.choices[0].message, *tools.run_sync(answer.choices[0].message)]
    assert history[-1].content == "done"


def test_openai_responses_takes_the_definitions_and_the_answers(
    provider: StrictProvider, closed: ExitStack
) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)
    closed.callback(client.close)
    tools, history = shop(), [{"role": "user", "content": "go"}]
    given = definitions(tools, "openai-responses")
    for _ in range(2):
        answer = client.responses.create(model="m", input=history, tools=given)
        history += [*answer.output, *tools.run_sync(answer.output)]
    assert answer.output_text == "done"


def test_anthropic_takes_the_definitions_and_the_answers(
    provider: StrictProvider, closed: ExitStack
) -> None:
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(
        base_url=provider.anthropic_base_url, api_key="test", max_retries=0
    )
    closed.callback(client.close)
    tools: Tools = shop()
    history: list[Any] = [{"role": "user", "content": "go"}]
    given = definitions(tools, "anthropic")
    for _ in range(2):
        answer = client.messages.create(model="m", max_tokens=9, messages=history, tools=given)
        message = {"role": "assistant", "content": answer.content}
        history += [message, *tools.run_sync(answer)]
    assert answer.content[0].text == "done"


def test_gemini_takes_the_definitions_and_the_answers(
    provider: StrictProvider, closed: ExitStack
) -> None:
    genai = pytest.importorskip("google.genai")
    client = genai.Client(
        api_key="test", http_options=genai.types.HttpOptions(base_url=provider.gemini_base_url)
    )
    closed.callback(client.close)
    tools, history = shop(), [CONTENTS]
    declared = [
        genai.types.FunctionDeclaration.model_validate(one) for one in definitions(tools, "gemini")
    ]
    config = genai.types.GenerateContentConfig(
        tools=[genai.types.Tool(function_declarations=declared)],
        automatic_function_calling=genai.types.AutomaticFunctionCallingConfig(disable=True),
    )
    for _ in range(2):
        answer = client.models.generate_content(model="m", contents=history, config=config)
        content = answer.candidates[0].content
        history += [content, *tools.run_sync(content)]
    assert answer.text == "done"


def test_bedrocks_own_model_takes_the_definitions() -> None:
    session = pytest.importorskip("botocore.session").get_session()
    shape = session.get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    validate = pytest.importorskip("botocore.validate").ParamValidator().validate
    tools = shop()
    message = bedrock(CALLS)
    request = {
        "modelId": "m",
        "messages": WIRES["bedrock"].history(message, tools.run_sync(message[0])),
        "toolConfig": {"tools": definitions(tools, "bedrock")},
    }
    assert validate(request, shape).generate_report() == ""


def test_langchain_takes_the_definitions() -> None:
    convert = pytest.importorskip("langchain_core.utils.function_calling").convert_to_openai_tool
    for made in definitions(shop(), "langchain"):
        assert convert(made)["function"]["name"] == made["function"]["name"]


def test_definitions_of_a_format_that_does_not_exist_are_refused() -> None:
    with pytest.raises(UnrecognizedHistoryError):
        shop().definitions("smoke-signals")


# -- context --------------------------------------------------------------------------------------


def test_tools_of_a_batch_know_their_call_run_step_thread_and_deadline() -> None:
    seen: dict[str | None, ToolContext] = {}
    tools = Tools()

    @tools.register
    def look(context: ToolContext) -> None:
        seen[context.call_id] = context

    @tools.register
    async def look_async(context: ToolContext) -> None:
        seen[context.call_id] = context

    tools.run_sync(
        asked(("c1", "look", "{}"), ("c2", "look_async", "{}")),
        thread="t1",
        run_id="r1",
        step=4,
        deadline_seconds=30,
    )
    assert sorted(seen) == ["c1", "c2"]  # type: ignore[type-var]
    for context in seen.values():
        assert (context.run_id, context.step, context.thread) == ("r1", 4, "t1")
        assert context.attempt == 1
        remaining = context.remaining_seconds()
        assert remaining is not None
        assert 0 < remaining <= 30
    assert seen["c1"].idempotency_key != seen["c2"].idempotency_key


def test_a_batch_inside_a_run_belongs_to_it() -> None:
    seen: list[ToolContext] = []
    tools = Tools()

    @tools.register
    def look(context: ToolContext) -> None:
        seen.append(context)

    with tool_context(run_id="r2", thread="t2", deadline_seconds=10):
        tools.run_sync(asked(("c1", "look", "{}")), deadline_seconds=1_000)
    [context] = seen
    assert (context.run_id, context.thread) == ("r2", "t2")
    assert context.remaining_seconds() <= 10  # type: ignore[operator]
    assert toolmend._threads.current_thread() is None


def test_a_budget_is_spent_over_the_turns_of_a_run() -> None:
    tool = make("sync", raising(ValueError("no such city")), run_budget=3)
    tools = Tools()
    tools.register(tool.guarded)
    texts = []
    for step in range(3):
        message = asked((f"a{step}", "look", "{}"), (f"b{step}", "look", '{"q": "b"}'))
        results = tools.run_sync(message, run_id="turns", step=step)
        texts.append([text for _, text in told("openai-chat", results)])
    gone = "look failed 4 times in this run and is not tried again here. Use another way."
    assert texts[0] == texts[1] == ["no such city"] * 2
    assert [text.partition(" failed ")[0] for text in texts[2]] == ["look", "look"]
    assert gone in texts[2]
    assert len(tool.runs) == 4


def test_a_tool_is_withheld_while_its_breaker_is_open_and_offered_to_be_probed() -> None:
    tool = make(
        "sync",
        raising(ConnectionResetError, None),
        breaker=Breaker(failures=1, open_seconds=0.15, probe_seconds=60),
        retry=QUICK,
    )
    tools = Tools()
    tools.register(tool.guarded)
    tools.register(make("sync", raising(None), name="other").guarded)

    def offered() -> list[str]:
        names = [one["function"]["name"] for one in tools.definitions("openai-chat")]
        assert tools.available_tools() == tuple(names)
        return names

    assert offered() == ["look", "other"]
    tools.run_sync(asked(("c1", "look", "{}")))
    assert offered() == ["other"]
    assert len(tools.definitions("openai-chat", only_available=False)) == 2
    time.sleep(0.2)
    assert offered() == ["look", "other"]
    assert tools.breaker("look").state == "open"  # to ask changes nothing
    permit = tools.breaker("look").acquire()
    assert offered() == ["other"]  # somebody probes it
    tools.breaker("look").release(permit, "ignored")  # type: ignore[arg-type]
    assert offered() == ["look", "other"]
    [result] = tools.run_sync(asked(("c2", "look", "{}")))
    assert result["content"] == "found"
    assert tools.breaker("look").state == "closed"


def test_results_are_cut_where_the_tools_say_so() -> None:
    tools = Tools(max_result_chars=10)
    tools.register(toolmend.tool_call(name="look")(lambda: "x" * 50))
    [result] = tools.run_sync(asked(("c1", "look", "{}")))
    assert result["content"] == "x" * 10 + "\n(cut: 50 characters in all)"


def test_two_tools_of_one_name_are_refused() -> None:
    tools = Tools()
    tools.register(make("sync", raising(None)).guarded)
    with pytest.raises(PolicyError, match="there is a tool 'look' already"):
        tools.register(make("sync", raising(None)).guarded)


def test_an_unbound_method_is_refused_with_the_cure() -> None:
    class Shop:
        @toolmend.tool_call
        def sell(self, item: str) -> str:
            return item

    with pytest.raises(PolicyError, match=r"tools\.register\(instance\.sell\)"):
        Tools().register(Shop.sell)


def test_run_sync_in_a_loop_says_what_to_do() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"use: await tools\.run"):
            shop().run_sync(asked(("c1", "look", "{}")))

    asyncio.run(main())


def test_denied_tools_do_not_hold_up_the_others() -> None:
    tools = Tools()
    tools.register(make("sync", raising(lambda: Refused(401)), name="denied").guarded)
    tools.register(make("sync", raising(None), name="well").guarded)
    results = tools.run_sync(asked(("c1", "denied", "{}"), ("c2", "well", "{}")))
    assert [text for _, text in told("openai-chat", results)] == [
        "denied is unavailable. Use another way.",
        "found",
    ]
    assert tools.available_tools() == ("well",)
