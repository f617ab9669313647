"""The rules of OpenAI Chat over langchain-core messages, in every view of a call."""

from __future__ import annotations

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from toolmend.testing import problems

HUMAN = HumanMessage("hi")


def call(call_id="c1", name="f"):
    return {"name": name, "args": {}, "id": call_id, "type": "tool_call"}


def invalid(call_id="c1", name="f"):
    return {
        "name": name,
        "args": '{"a',
        "id": call_id,
        "error": "cut",
        "type": "invalid_tool_call",
    }


def tool_use(call_id="c1", name="f"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def function_call(call_id="c1", name="f"):
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": name,
        "arguments": "{}",
    }


def openai_call(call_id="c1", name="f"):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
    }


def ai(content="", **fields):
    return AIMessage(content, **fields)


def raw_ai(calls):
    """Return a message whose calls stand in `additional_kwargs` alone."""
    message = AIMessage("", additional_kwargs={"tool_calls": calls})
    return message.model_copy(update={"tool_calls": [], "invalid_tool_calls": []})


def result(call_id="c1", content="r", **fields):
    return ToolMessage(content, tool_call_id=call_id, **fields)


RULES = [
    (
        "each call is answered",
        [ai(tool_calls=[call()]), HUMAN],
        [("dangling", 0, ("c1",))],
        [ai(tool_calls=[call()]), result(status="error", artifact={"k": object()}), HUMAN],
    ),
    (
        "in the unbroken run",
        [ai(tool_calls=[call()]), HUMAN, result()],
        [("dangling", 0, ("c1",)), ("orphan", 2, ("c1",))],
        [ai(tool_calls=[call("a"), call("b")]), result("b"), result("a"), HUMAN],
    ),
    *[
        (
            f"{type(message).__name__} breaks the run",
            [ai(tool_calls=[call()]), message, result()],
            [("dangling", 0, ("c1",)), ("orphan", 2, ("c1",))],
            [message, ai(tool_calls=[call()]), result(), message],
        )
        for message in [
            SystemMessage("s"),
            FunctionMessage("x", name="g"),
            ChatMessage("x", role="critic"),
        ]
    ],
    (
        "a result has its call",
        [HUMAN, result(), ai("x")],
        [("orphan", 1, ("c1",))],
        [HUMAN, ai(), HUMAN],
    ),
    (
        "one result per call",
        [ai(tool_calls=[call()]), result(), result()],
        [("duplicate_result", 2, ("c1",))],
        [ai(tool_calls=[call()]), result(), ai(tool_calls=[call()]), result()],
    ),
    (
        "invalid_tool_calls count",
        [ai(invalid_tool_calls=[invalid()]), HUMAN],
        [("dangling", 0, ("c1",))],
        [ai(invalid_tool_calls=[invalid()]), result(), HUMAN],
    ),
    (
        "tool_use blocks count",
        [ai([tool_use()]), HUMAN],
        [("dangling", 0, ("c1",))],
        [ai([tool_use()]), result(), HUMAN],
    ),
    (
        "function_call blocks count, by call_id",
        [ai([function_call()]), result("fc_1")],
        [("dangling", 0, ("c1",)), ("orphan", 1, ("fc_1",))],
        [ai([function_call()]), result("c1")],
    ),
    (
        "additional_kwargs count when nothing else is there",
        [raw_ai([openai_call()]), HUMAN],
        [("dangling", 0, ("c1",))],
        [raw_ai([openai_call()]), result(), HUMAN],
    ),
    (
        "additional_kwargs do not count beside another view",
        [
            ai(
                [tool_use("a")],
                additional_kwargs={"tool_calls": [openai_call("b")]},
                tool_calls=[call("a")],
            ),
            result("b"),
        ],
        [("dangling", 0, ("a",)), ("orphan", 1, ("b",))],
        [
            ai(
                [tool_use("a")],
                additional_kwargs={"tool_calls": [openai_call("b")]},
                tool_calls=[call("a")],
            ),
            result("a"),
        ],
    ),
    (
        "a call in two views is one, the union counts",
        [ai([tool_use("a"), tool_use("b")], tool_calls=[call("a")]), result("a")],
        [("dangling", 0, ("b",))],
        [ai([tool_use("a"), tool_use("b")], tool_calls=[call("a"), call("b")]), *map(result, "ab")],
    ),
    (
        "two calls of one id in one view",
        [ai(tool_calls=[call(), call()]), result(), result()],
        [("duplicate_id", 0, ("c1",))],
        [ai([tool_use()], tool_calls=[call()], invalid_tool_calls=[invalid()]), result()],
    ),
    (
        "two calls of one id in the second view",
        [ai([tool_use(), tool_use()], tool_calls=[call()]), result(), result()],
        [("duplicate_id", 0, ("c1",))],
        [ai([tool_use(), {"type": "text", "text": "x"}], tool_calls=[call()]), result()],
    ),
    (
        "an id is there",
        [ai(tool_calls=[call(None), call(" ")])],
        [("missing_id", 0, ()), ("missing_id", 0, ())],
        [ai(tool_calls=[])],
    ),
    (
        "a function_call block has a call_id",
        [ai([function_call(None)])],
        [("missing_id", 0, ())],
        [ai([function_call("fc_1")]), result("fc_1")],
    ),
    (
        "a result names a call",
        [ai(tool_calls=[call()]), result(), result("")],
        [("missing_id", 2, ())],
        [ai(tool_calls=[call()]), result()],
    ),
    (
        "a call has a name",
        [ai(tool_calls=[call(name="")]), result()],
        [("nameless_call", 0, ("c1",))],
        [ai([tool_use(name="f")], tool_calls=[call(name="")]), result()],
    ),
    (
        "chunks are messages",
        [AIMessageChunk("", tool_calls=[call()]), HUMAN],
        [("dangling", 0, ("c1",))],
        [AIMessageChunk("", tool_calls=[call()]), result(), HUMAN],
    ),
    (
        "server tools in content are no calls",
        [ai([{"type": "server_tool_use", "id": "s", "name": "n", "input": {}}, tool_use()])],
        [("dangling", 0, ("c1",))],
        [ai([{"type": "server_tool_use", "id": "s", "name": "n", "input": {}}]), HUMAN],
    ),
    (
        "dicts with the fields of messages",
        [{"type": "ai", "content": "", "tool_calls": [call()]}, HUMAN],
        [("dangling", 0, ("c1",))],
        [{"type": "ai", "content": "", "tool_calls": [call()]}, result(), HUMAN],
    ),
]


@pytest.mark.parametrize(
    ("illegal", "expected"), [pytest.param(rule[1], rule[2], id=rule[0]) for rule in RULES]
)
def test_refuses(illegal, expected):
    found = problems(illegal, format="langchain")
    assert [(problem.kind, problem.index, problem.call_ids) for problem in found] == expected


@pytest.mark.parametrize("legal", [pytest.param(rule[3], id=rule[0]) for rule in RULES])
def test_accepts_the_near_miss(legal):
    assert problems(legal, format="langchain") == []


def test_messages_are_not_changed():
    history = [ai([tool_use()], tool_calls=[call()]), result(), HUMAN]
    copies = [message.model_copy(deep=True) for message in history]
    problems(history, format="langchain")
    assert history == copies
