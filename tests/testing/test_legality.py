"""`problems` and `assert_legal`: formats, objects of the SDKs, the text of a failure."""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
from functools import partial
from pathlib import Path

import pytest
from anthropic.types import Message, TextBlock, ToolUseBlock
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall
from openai.types.responses import ResponseFunctionToolCall

import toolmend.testing
from tests.property.test_linear_time import executed_lines
from toolmend.testing import assert_legal, problems
from toolmend.testing.strict import Profile

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "langchain")
USER = {"role": "user", "content": "hi"}
CHAT_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{}"},
}
CHAT = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
BLOCK = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}


def openai_message():
    call = ChatCompletionMessageFunctionToolCall.model_validate(CHAT_CALL)
    return ChatCompletionMessage(role="assistant", content=None, tool_calls=[call])


def anthropic_message():
    return Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "x"}, BLOCK],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


OBJECTS = [
    ("openai message", "openai-chat", [USER, openai_message()]),
    (
        "openai calls in a dict",
        "openai-chat",
        [USER, {"role": "assistant", "tool_calls": openai_message().tool_calls}],
    ),
    ("anthropic message", "anthropic", [USER, anthropic_message()]),
    (
        "anthropic blocks in a dict",
        "anthropic",
        [
            USER,
            {
                "role": "assistant",
                "content": [TextBlock(type="text", text="x"), ToolUseBlock(**BLOCK)],
            },
        ],
    ),
    (
        "openai items",
        "openai-responses",
        [
            USER,
            ResponseFunctionToolCall(
                type="function_call", call_id="c1", name="f", arguments="{}", id="fc_1"
            ),
        ],
    ),
    (
        "google-genai contents",
        "gemini",
        [
            types.Content(role="user", parts=[types.Part(text="hi")]),
            types.Content(
                role="model",
                parts=[
                    types.Part(
                        function_call=types.FunctionCall(id="c1", name="f", args={}),
                        thought_signature=b"S",
                    )
                ],
            ),
        ],
    ),
    (
        "google-genai parts in a dict",
        "gemini",
        [
            {"role": "user", "parts": [types.Part(text="hi")]},
            {
                "role": "model",
                "parts": [{"functionCall": types.FunctionCall(id="c1", name="f")}],
            },
        ],
    ),
    (
        "langchain messages",
        "langchain",
        [HumanMessage("hi"), AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}])],
    ),
]


@pytest.mark.parametrize(
    ("known_format", "history"), [pytest.param(*row[1:], id=row[0]) for row in OBJECTS]
)
def test_objects_of_the_sdks_are_read(known_format, history):
    found = problems(history, format=known_format)
    assert [(problem.kind, problem.index) for problem in found] == [("dangling", 1)]
    with pytest.raises(AssertionError, match=f"^illegal {known_format} history, 1 problem:"):
        assert_legal(history)
    assert_legal(history, allow_open_tail=True)
    assert_legal(history, allow_open=found[0].call_ids)


def server_result(kind):
    return {"role": "assistant", "content": [{"type": kind, "tool_use_id": "s"}]}


RECOGNISED = [
    ("nothing telling", [USER, {"role": "tool", "tool_call_id": "z"}], "openai-chat"),
    ("a tool result block", [{"role": "user", "content": [{"type": "tool_result"}]}], "anthropic"),
    ("a server result block", [USER, server_result("web_search_tool_result")], "anthropic"),
    ("an MCP call", [{"role": "assistant", "content": [{"type": "mcp_tool_use"}]}], "anthropic"),
    (
        "a Responses item",
        [USER, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
        "openai-responses",
    ),
    (
        "a Responses message",
        [{"type": "message", **USER}, {"type": "reasoning", "id": "rs_1"}],
        "openai-responses",
    ),
    (
        "Responses blocks",
        [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "custom_tool_call_output", "call_id": "c"},
        ],
        "openai-responses",
    ),
    ("Gemini parts", [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]}], "gemini"),
    ("Gemini contents without a role", [{"parts": []}], "gemini"),
    ("a Bedrock call", [{"role": "assistant", "content": [{"toolUse": {}}]}], "bedrock"),
    ("Bedrock texts", [{"role": "assistant", "content": [{"text": "x"}]}], "bedrock"),
    ("langchain dicts", [{"type": "tool", "content": "x", "tool_call_id": "z"}], "langchain"),
]


@pytest.mark.parametrize(
    ("history", "expected"), [pytest.param(*row[1:], id=row[0]) for row in RECOGNISED]
)
def test_the_format_is_recognised(history, expected):
    with pytest.raises(AssertionError, match=f"^illegal {expected} history"):
        assert_legal(history)


def test_thinking_alone_is_anthropic():
    history = [USER, {"role": "assistant", "content": [{"type": "thinking"}]}, USER]
    with pytest.raises(AssertionError, match="trailing_thinking"):
        assert_legal(history)


@pytest.mark.parametrize(
    "item", [{}, {"content": "hi"}, {"type": 7}, {"id": 7}, {"type": None, "role": None}], ids=repr
)
def test_what_is_of_no_format_is_not_called_legal(item):
    with pytest.raises(ValueError, match=r"messages\[1\] is no message of a known format"):
        assert_legal([USER, item])


def test_items_of_several_formats_are_not_called_legal():
    item = {"type": "reasoning", "id": "rs_1"}
    with pytest.raises(
        ValueError, match=r"messages\[1\] is of gemini and messages\[2\] of openai-"
    ):
        assert_legal([USER, {"parts": []}, item])


def test_a_reference_alone_is_a_legal_history():
    assert_legal([{"id": "msg_1"}, {"type": "function_call_output", "call_id": "c", "output": ""}])


def test_a_failure_has_a_line_per_problem():
    history = [
        USER,
        {"role": "tool", "tool_call_id": "z", "content": "x"},
        {"role": "assistant"},
        CHAT,
    ]
    with pytest.raises(AssertionError) as failure:
        assert_legal(history)
    lines = str(failure.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "illegal openai-chat history, 3 problems:",
        "  messages[1] orphan (z)",
        "  messages[2] empty_content",
        "  messages[3] dangling (c1)",
    ]
    assert lines[2].endswith("Invalid value for 'content': expected a string, got null.")


def test_a_legal_history_passes():
    assert_legal(iter([USER, {"role": "assistant", "content": "x"}]), format="openai-chat")
    assert_legal([])


def test_unknown_format():
    with pytest.raises(ValueError, match="not 'cohere'") as failure:
        problems([USER], format="cohere")
    assert str(failure.value) == (
        "format is one of 'openai-chat', 'openai-responses', 'anthropic', 'gemini', 'bedrock', "
        "'langchain', not 'cohere'"
    )


@pytest.mark.parametrize("known_format", FORMATS)
@pytest.mark.parametrize("item", ["words", None, 3, ChatCompletionMessage], ids=repr)
def test_an_item_that_is_no_message(known_format, item):
    with pytest.raises(TypeError, match=r"messages\[1\] is a "):
        problems([{**USER, "type": "human"}, item], format=known_format)


def test_an_item_that_is_no_message_has_no_format():
    with pytest.raises(TypeError, match=r"messages\[0\] is a str"):
        assert_legal(["words"])


KEYS = st.sampled_from(
    [
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
        "id",
        "type",
        "function",
        "name",
        "arguments",
        "input",
        "text",
        "tool_use_id",
        "custom",
        "call_id",
        "additional_kwargs",
        "invalid_tool_calls",
        "refusal",
        "output",
        "status",
        "parts",
        "functionCall",
        "function_call",
        "functionResponse",
        "response",
        "args",
        "thoughtSignature",
        "toolUse",
        "toolResult",
        "toolUseId",
        "reasoning_content",
    ]
)
WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "tool",
        "function",
        "ai",
        "human",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "thinking",
        "web_search_tool_result",
        "text",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "local_shell_call_output",
        "computer_call",
        "computer_call_output",
        "apply_patch_call_output",
        "reasoning",
        "message",
        "item_reference",
        "model",
        "server_tool_use",
        "custom",
        "a",
        "b",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | WORDS | st.just("") | st.just("{}")
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


HOSTS = [{}, *({"profile": name} for name in Profile.__args__)]


@pytest.mark.parametrize("known_format", FORMATS)
@settings(deadline=None)
@given(
    history=st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=6),
    options=st.sampled_from(HOSTS),
)
def test_no_shape_makes_the_judge_stumble(known_format, history, options):
    before = repr(history)
    options = {**options, "max_id_len": 1, "strict_alternation": True}
    found = problems(history, format=known_format, **options)
    assert repr(history) == before
    assert [problem.index for problem in found] == sorted(problem.index for problem in found)


@settings(deadline=None)
@given(history=st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=6))
def test_no_shape_makes_the_recogniser_stumble(history):
    with contextlib.suppress(ValueError, AssertionError):
        assert_legal(history)


DEEP = functools.reduce(lambda inner, _: [inner], range(50_000), {})


@pytest.mark.parametrize("known_format", FORMATS)
def test_deep_nesting_and_huge_numbers(known_format):
    args = {"deep": DEEP, "huge": 10**5000}
    history = [
        {"role": "user", "content": DEEP, "parts": DEEP, "type": "human"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "input": args}, DEEP]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "input": args}}, DEEP]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": args}}, DEEP]},
        {"type": "function_call", "call_id": "a", "name": DEEP, "arguments": args},
        {"type": "function_call", "call_id": "b", "name": "f", "id": 10**5000, "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "name": "f", "id": DEEP, "arguments": "{}"},
        {"type": "function_call_output", "call_id": DEEP, "output": args},
    ]
    for profile in (None, *Profile.__args__):
        problems(history, format=known_format, profile=profile, max_id_len=3)


def chat_history(size):
    calls = [{**CHAT_CALL, "id": f"c{i}"} for i in range(size)]
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": "x"} for i in range(size)]
    batches = [
        {"role": "assistant", "tool_calls": calls},
        *results,
        *[CHAT, results[0]] * size,
    ]
    return "openai-chat", batches


def anthropic_history(size):
    history = []
    for i in range(size):
        server = {"type": "server_tool_use", "id": f"s{i}", "name": "web_search", "input": {}}
        history += [
            {"role": "assistant", "content": [server, {**BLOCK, "id": f"t{i}"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{i}"}]},
        ]
    return "anthropic", history


def responses_history(size):
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    answer = {"type": "function_call_output", "output": "r"}
    calls = [{**call, "call_id": f"c{i % (size // 2)}"} for i in range(size)]
    return "openai-responses", [
        {"type": "reasoning"},
        *calls,
        *[{**answer, "call_id": call["call_id"]} for call in calls],
    ]


def gemini_history(size):
    call = {"functionCall": {"name": "f", "args": {}}}
    answer = {"functionResponse": {"name": "f", "response": {}}}
    return "gemini", [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [call] * size},
        {"role": "user", "parts": [answer] * size},
        *[{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}] * size,
    ]


def bedrock_history(size):
    def call(number):
        return {"toolUse": {"toolUseId": f"t{number}", "name": "f", "input": {}}}

    def answer(number):
        return {"toolResult": {"toolUseId": f"t{number}", "content": []}}

    return "bedrock", [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [call(i) for i in range(size)]},
        {"role": "user", "content": [answer(i) for i in range(size)]},
        *[
            {"role": "assistant", "content": [call(0)]},
            {"role": "user", "content": [answer(0)]},
        ]
        * size,
    ]


@pytest.mark.parametrize(
    "build",
    [chat_history, anthropic_history, responses_history, gemini_history, bedrock_history],
)
def test_work_grows_with_the_history(build):
    """Ten times the history costs about ten times the work, counted in executed lines."""
    few, many = (
        executed_lines(partial(problems, history, format=known_format))
        for known_format, history in (build(60), build(600))
    )
    assert many <= 12 * few


def test_the_public_names():
    names = toolmend.testing.__all__
    assert names == sorted(names)
    assert all(hasattr(toolmend.testing, name) for name in names)


STRICT = sorted((Path(toolmend.testing.__file__).parent / "strict").glob("*.py"))


@pytest.mark.parametrize("path", STRICT, ids=lambda path: path.name)
def test_the_judge_stands_alone(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            own = module.startswith("toolmend.testing.strict")
            assert own or module.partition(".")[0] in sys.stdlib_module_names, module
