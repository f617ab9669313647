"""`problems` and `assert_legal`: formats, objects of the SDKs, the text of a failure."""

from __future__ import annotations

import ast
import sys
import time
from pathlib import Path

import pytest
from anthropic.types import Message, TextBlock, ToolUseBlock
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall

import toolmend.testing
from toolmend.testing import assert_legal, problems

FORMATS = ("openai-chat", "anthropic", "langchain")
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
    "item",
    [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t"}}]},
    ],
    ids=["responses item", "gemini content", "bedrock message"],
)
def test_other_formats_are_not_called_legal(item):
    with pytest.raises(ValueError, match=r"messages\[1\] is no message of"):
        assert_legal([USER, item])


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
    with pytest.raises(ValueError, match="not 'gemini'"):
        problems([USER], format="gemini")


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


@pytest.mark.parametrize("known_format", FORMATS)
@settings(deadline=None)
@given(history=st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=6))
def test_no_shape_makes_the_judge_stumble(known_format, history):
    before = repr(history)
    found = problems(history, format=known_format)
    assert repr(history) == before
    assert [problem.index for problem in found] == sorted(problem.index for problem in found)


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


@pytest.mark.parametrize("build", [chat_history, anthropic_history])
def test_time_is_linear(build):
    known_format, history = build(20_000)
    start = time.perf_counter()
    problems(history, format=known_format)
    assert time.perf_counter() - start < 10


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
