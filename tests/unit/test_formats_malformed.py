"""Histories of items, parts and blocks that are none: mended or refused in one clear line."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.genai import types as gemini_types
from openai.types import responses as responses_types

import toolmend
from tests.unit.test_core_malformed import (
    BAD_IDS,
    BAD_VALUES,
    DEEP_TEXT,
    DIGITS,
    HUGE_NUMBER,
    HUGE_TEXT,
    POLICIES,
    Unordered,
    attempt,
)
from toolmend.errors import MalformedHistoryError, UnrecognizedHistoryError

RESPONSES, GEMINI, BEDROCK = "openai-responses", "gemini", "bedrock"
FORMATS = (RESPONSES, GEMINI, BEDROCK)
USERS: dict[str, dict[str, Any]] = {
    RESPONSES: {"type": "message", "role": "user", "content": "hello"},
    GEMINI: {"role": "user", "parts": [{"text": "hello"}]},
    BEDROCK: {"role": "user", "content": [{"text": "hello"}]},
}


def items(*calls: Any) -> list[Any]:
    return [USERS[RESPONSES], *calls, USERS[RESPONSES]]


def call_item(**fields: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "a", "name": "look_up", "arguments": "{}"}
    return {**call, **fields}


def output_item(**fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "a", "output": "done", **fields}


def contents(*parts: Any, answer: Any = None) -> list[Any]:
    answers = [] if answer is None else [{"role": "user", "parts": answer}]
    return [USERS[GEMINI], {"role": "model", "parts": list(parts)}, *answers, USERS[GEMINI]]


def call_part(snake: bool = False, **fields: Any) -> dict[str, Any]:
    call = {"name": "look_up", "args": {}, **fields}
    return {"function_call" if snake else "functionCall": call}


def response_part(**fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look_up", "response": {"result": "done"}, **fields}}


def converse(*blocks: Any, answer: Any = None) -> list[Any]:
    last = USERS[BEDROCK] if answer is None else {"role": "user", "content": answer}
    return [USERS[BEDROCK], {"role": "assistant", "content": list(blocks)}, last]


def call_block(**fields: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": "a", "name": "look_up", "input": {}, **fields}}


def result_block(**fields: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": "a", "content": [{"text": "done"}], **fields}}


FAMILIES = ("function", "custom_tool", "local_shell", "shell", "apply_patch", "computer")
# Each puts one bad value in one place, mostly twice, so that what is bad has to be compared.
PLACES: dict[str, tuple[str, Callable[[Any], list[Any]]]] = {
    "item": (RESPONSES, lambda v: items(v, call_item())),
    "type": (RESPONSES, lambda v: items({"type": v}, call_item())),
    "type-of-message": (RESPONSES, lambda v: items({**USERS[RESPONSES], "type": v}, call_item())),
    "role": (RESPONSES, lambda v: items({"type": "message", "role": v}, call_item())),
    "content": (RESPONSES, lambda v: items({"role": "user", "content": v}, call_item())),
    "name": (RESPONSES, lambda v: items(call_item(name=v), call_item(name=v))),
    "arguments": (RESPONSES, lambda v: items(call_item(arguments=v), call_item(arguments=v))),
    "item-id": (RESPONSES, lambda v: items(call_item(id=v))),
    "input": (RESPONSES, lambda v: items(call_item(type="custom_tool_call", input=v))),
    "summary": (RESPONSES, lambda v: items({"type": "reasoning", "summary": v}, call_item())),
    "output": (RESPONSES, lambda v: items(call_item(), output_item(output=v), output_item())),
    "output-part": (RESPONSES, lambda v: items(call_item(), output_item(output=[v, v]))),
    "reference": (RESPONSES, lambda v: items({"type": "item_reference", "id": v}, call_item())),
    **{
        f"{family}-output": (
            RESPONSES,
            lambda v, family=family: items(
                call_item(type=f"{family}_call", action=v, operation=v),
                {"type": f"{family}_call_output", "call_id": "a", "id": v, "output": v},
            ),
        )
        for family in FAMILIES
    },
    **{
        f"{family}-from-function": (
            RESPONSES,
            lambda v, family=family: items(
                call_item(type=f"{family}_call", action=v, operation=v), output_item(output=v)
            ),
        )
        for family in FAMILIES[1:]
    },
    "gemini-content": (GEMINI, lambda v: [*contents(call_part())[:2], v]),
    "gemini-role": (GEMINI, lambda v: [*contents(call_part()), {"role": v, "parts": []}]),
    "parts": (GEMINI, lambda v: [*contents(call_part()), {"role": "model", "parts": v}]),
    "part": (GEMINI, lambda v: contents(v, call_part())),
    "user-part": (GEMINI, lambda v: contents(call_part(), answer=[v, response_part()])),
    "text": (GEMINI, lambda v: contents({"text": v}, call_part())),
    "thought": (GEMINI, lambda v: contents({"text": "hm", "thought": v}, call_part())),
    "call": (GEMINI, lambda v: contents({"functionCall": v}, call_part())),
    "snake-call": (GEMINI, lambda v: contents({"function_call": v}, call_part(snake=True))),
    "both-calls": (GEMINI, lambda v: contents({"functionCall": v, **call_part(snake=True)})),
    "call-name": (GEMINI, lambda v: contents(call_part(name=v), call_part(name=v))),
    "args": (GEMINI, lambda v: contents(call_part(args=v, id="a"), call_part(args=v, id="a"))),
    "signature": (GEMINI, lambda v: contents({**call_part(), "thoughtSignature": v})),
    "response": (GEMINI, lambda v: contents(call_part(), answer=[{"functionResponse": v}])),
    "response-name": (GEMINI, lambda v: contents(call_part(), answer=[response_part(name=v)])),
    "response-body": (
        GEMINI,
        lambda v: contents(call_part(), answer=[response_part(response=v), response_part()]),
    ),
    "response-text": (
        GEMINI,
        lambda v: contents(
            call_part(), answer=[response_part(response={"result": v}), response_part()]
        ),
    ),
    "message": (BEDROCK, lambda v: [*converse(call_block())[:2], v]),
    "bedrock-role": (BEDROCK, lambda v: [*converse(call_block()), {"role": v, "content": []}]),
    "bedrock-content": (
        BEDROCK,
        lambda v: [*converse(call_block()), {"role": "assistant", "content": v}],
    ),
    "block": (BEDROCK, lambda v: converse(v, call_block())),
    "user-block": (BEDROCK, lambda v: converse(call_block(), answer=[v, result_block()])),
    "block-text": (BEDROCK, lambda v: converse({"text": v}, call_block())),
    "reasoning": (BEDROCK, lambda v: converse({"reasoningContent": v}, call_block())),
    "tool-use": (BEDROCK, lambda v: converse({"toolUse": v}, call_block())),
    "tool-name": (BEDROCK, lambda v: converse(call_block(name=v), call_block(name=v))),
    "tool-input": (BEDROCK, lambda v: converse(call_block(input=v), call_block(input=v))),
    "tool-type": (BEDROCK, lambda v: converse(call_block(type=v))),
    "tool-result": (BEDROCK, lambda v: converse(call_block(), answer=[{"toolResult": v}])),
    "result-content": (
        BEDROCK,
        lambda v: converse(call_block(), answer=[result_block(content=v), result_block()]),
    ),
    "result-block": (
        BEDROCK,
        lambda v: converse(call_block(), answer=[result_block(content=[v]), result_block()]),
    ),
    "result-status": (BEDROCK, lambda v: converse(call_block(), answer=[result_block(status=v)])),
}
IDS: dict[str, tuple[str, Callable[[Any], list[Any]]]] = {
    "call-item": (RESPONSES, lambda v: items(call_item(call_id=v), call_item(call_id=v))),
    "output-item": (RESPONSES, lambda v: items(call_item(), output_item(call_id=v))),
    "shell-item": (
        RESPONSES,
        lambda v: items(
            call_item(type="local_shell_call", call_id=v),
            {"type": "local_shell_call_output", "id": v, "output": "done"},
        ),
    ),
    "call-part": (GEMINI, lambda v: contents(call_part(id=v), call_part(id=v, args={"n": 1}))),
    "response-part": (GEMINI, lambda v: contents(call_part(id="a"), answer=[response_part(id=v)])),
    "call-block": (BEDROCK, lambda v: converse(call_block(toolUseId=v), call_block(toolUseId=v))),
    "result-block": (
        BEDROCK,
        lambda v: converse(call_block(), answer=[result_block(toolUseId=v)]),
    ),
}
BAD_ENTRIES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "text": lambda: "hello",
    "bytes": lambda: b"hello",
    "list": list,
    "tuple": lambda: ("user",),
    "empty-dict": dict,
    "type": lambda: dict,
    "object": Unordered,
}


def cases() -> Iterator[Any]:
    for where, (wire, build) in PLACES.items():
        for name, make in BAD_VALUES.items():
            yield pytest.param(
                wire,
                lambda build=build, make=make: build(make()),
                id=f"{wire}-{where}-{name}",
            )
    for where, (wire, build) in IDS.items():
        for name, value in BAD_IDS.items():
            yield pytest.param(
                wire,
                lambda build=build, value=value: build(value),
                id=f"{wire}-{where}-id-{name}",
            )
    for wire in FORMATS:
        for name, make in BAD_ENTRIES.items():
            yield pytest.param(
                wire,
                lambda wire=wire, make=make: [USERS[wire], make(), USERS[wire]],
                id=f"{wire}-entry-{name}",
            )


@pytest.mark.parametrize(("format", "make"), list(cases()))
def test_it_is_mended_or_refused_in_one_line(format: str, make: Callable[[], list[Any]]) -> None:
    for name, policy in POLICIES.items():
        with_policy(format, make, policy, name)


def with_policy(
    format: str, make: Callable[[], list[Any]], policy: toolmend.Policy | None, name: str
) -> None:
    messages = make()
    entries = list(messages)
    outcome, refusal = attempt(messages, format, policy)
    if outcome is not None:
        assert toolmend.check(messages, format=format, policy=policy) == outcome.findings, name
        again = toolmend.repair(outcome.messages, format=format, policy=policy)
        assert policy is not None or again.messages is outcome.messages, name
    else:
        text = str(refusal)
        assert "\n" not in text
        assert "; " in text, "the cure is missing"
        assert len(text) < 300
        assert isinstance(refusal, MalformedHistoryError)
        assert f"messages[{refusal.index}]" in text
        assert refusal.format == format
    assert all(one is two for one, two in zip(entries, messages, strict=True))


@pytest.mark.parametrize("make", [make for _, make in PLACES.values()], ids=PLACES)
def test_nothing_else_escapes_where_the_format_is_not_named(
    make: Callable[[Any], list[Any]],
) -> None:
    for value in BAD_VALUES.values():
        attempt(make(value()), None, None)


# Real objects instead of dicts


def response_objects() -> list[Any]:
    return [
        responses_types.EasyInputMessage.model_construct(role="user", content="hello"),
        responses_types.ResponseReasoningItem(id="rs_1", summary=[], type="reasoning"),
        responses_types.ResponseFunctionToolCall(
            arguments="", call_id="a", name="look_up", type="function_call", id="fc_1"
        ),
        responses_types.ResponseCustomToolCall(
            call_id="b", input="x", name="patch", type="custom_tool_call"
        ),
    ]


def content_objects() -> list[Any]:
    call = gemini_types.FunctionCall(name="look_up", args={"n": 1}, id="a")
    other = gemini_types.FunctionCall(name="search", args={})
    return [
        gemini_types.UserContent(parts=[gemini_types.Part(text="hello")]),
        gemini_types.ModelContent(
            parts=[
                gemini_types.Part(function_call=call, thought_signature=b"signed"),
                gemini_types.Part(function_call=other),
            ]
        ),
    ]


def test_response_items_of_the_sdk_are_read_and_answered() -> None:
    messages = response_objects()
    outcome = toolmend.repair(messages)
    assert outcome.format == RESPONSES
    assert [item["type"] for item in outcome.messages[4:]] == [
        "function_call_output",
        "custom_tool_call_output",
    ]
    fixed = outcome.messages[2]
    assert isinstance(fixed, responses_types.ResponseFunctionToolCall)
    assert (fixed.arguments, messages[2].arguments) == ("{}", "")
    assert outcome.messages[1] is messages[1]


def test_contents_of_the_sdk_are_answered_by_contents_of_its_parts() -> None:
    messages = content_objects()
    outcome = toolmend.repair(messages)
    assert outcome.format == GEMINI
    assert outcome.messages[:2] == messages
    made = gemini_types.Content.model_validate(outcome.messages[2])
    assert [part.function_response.id for part in made.parts or ()] == ["a", None]
    assert [type(part) for part in outcome.messages[2]["parts"]] == [gemini_types.Part] * 2
    assert toolmend.repair(outcome.messages).messages is outcome.messages


def test_a_call_of_the_sdk_that_changes_is_a_copy_of_the_same_class() -> None:
    messages = content_objects()
    messages[1].parts[1].function_call.id = "a"
    before = messages[1].model_dump()
    outcome = toolmend.repair(messages)
    assert isinstance(outcome.messages[1], gemini_types.Content)
    renamed = outcome.messages[1].parts[1].function_call
    assert renamed.id not in ("a", None)
    assert messages[1].model_dump() == before


@pytest.mark.parametrize("kind", [types.MappingProxyType, dict])
def test_mappings_that_are_no_dicts_are_read_alike(kind: Callable[[Any], Any]) -> None:
    for messages in (items(call_item()), contents(call_part()), converse(call_block())):
        outcome = toolmend.repair([kind(message) for message in messages])
        assert [f.kind for f in outcome.findings] == ["dangling_call"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("messages", [None, 7, "hello", b"hello", {"role": "user"}])
def test_what_is_no_list_is_refused(messages: Any, format: str) -> None:
    with pytest.raises(UnrecognizedHistoryError, match=r"must be a list of messages; "):
        toolmend.repair(messages, format=format)


@pytest.mark.parametrize(
    "arguments", [HUGE_NUMBER, DEEP_TEXT, HUGE_TEXT], ids=["digits", "depth", "length"]
)
def test_arguments_past_the_limits_of_a_parser_stay_as_they_are(arguments: str) -> None:
    messages = items(call_item(arguments=arguments))
    outcome = toolmend.repair(messages)
    assert [finding.kind for finding in outcome.findings] == ["dangling_call"]
    assert outcome.messages[1] is messages[1]


def test_calls_with_integers_past_the_limit_are_told_apart() -> None:
    for messages in (
        contents(
            call_part(id="a", args={"n": 10**DIGITS}), call_part(id="a", args={"n": 10**DIGITS + 1})
        ),
        converse(call_block(input={"n": 10**DIGITS}), call_block(input={"n": 10**DIGITS + 1})),
    ):
        outcome = toolmend.repair(messages)
        assert [f.kind for f in outcome.findings if f.kind != "dangling_call"] == ["colliding_id"]


@pytest.mark.parametrize(
    ("messages", "at"),
    [
        (lambda: items(call_item(), output_item(output=HUGE_TEXT), output_item()), 2),
        (lambda: contents(call_part(), answer=[response_part(response={"r": HUGE_TEXT})])[:3], 2),
        (lambda: converse(call_block(), answer=[result_block(content=[{"text": HUGE_TEXT}])]), 2),
    ],
    ids=FORMATS,
)
def test_a_huge_result_is_carried_and_never_copied(
    messages: Callable[[], list[Any]], at: int
) -> None:
    history = messages()
    assert toolmend.repair(history).messages[at] is history[at]


# Recognition

HISTORIES: dict[str, tuple[str, list[Any]]] = {
    "responses-plain": (RESPONSES, [{"type": "message", "role": "user", "content": "hello"}]),
    "responses-easy-then-item": (
        RESPONSES,
        [{"role": "user", "content": "hello"}, call_item()],
    ),
    "responses-content-parts": (
        RESPONSES,
        [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    ),
    "responses-reasoning-first": (RESPONSES, [{"type": "reasoning", "id": "rs_1", "summary": []}]),
    "responses-outputs-alone": (RESPONSES, [output_item(), output_item(call_id="b")]),
    "responses-hosted": (RESPONSES, [{"type": "web_search_call", "id": "ws_1"}]),
    "responses-answer": (
        RESPONSES,
        [{"role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}],
    ),
    "responses-objects": (RESPONSES, response_objects()[1:]),
    "gemini-text": (GEMINI, [{"role": "user", "parts": [{"text": "hello"}]}]),
    "gemini-no-role": (GEMINI, [{"parts": [{"text": "hello"}]}]),
    "gemini-text-first": (GEMINI, ["hello", {"role": "model", "parts": [{"text": "hello"}]}]),
    "gemini-image": (GEMINI, [{"role": "user", "parts": [{"inlineData": {"data": ""}}]}]),
    "gemini-objects": (GEMINI, content_objects()),
    "gemini-function-role": (GEMINI, [{"role": "function", "parts": [response_part()]}]),
    "gemini-empty": (GEMINI, [{"role": "user", "parts": []}]),
    "bedrock-text": (BEDROCK, [USERS[BEDROCK]]),
    "bedrock-image": (BEDROCK, [{"role": "user", "content": [{"image": {"format": "png"}}]}]),
    "bedrock-call-first": (BEDROCK, [{"role": "assistant", "content": [call_block()]}]),
    "bedrock-cache-point": (
        BEDROCK,
        [{"role": "user", "content": [{"cachePoint": {"type": "default"}}]}],
    ),
    "bedrock-reasoning": (
        BEDROCK,
        [{"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"x"}}]}],
    ),
    "anthropic-call": (
        "anthropic",
        [
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "calling"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                ],
            },
        ],
    ),
    "anthropic-image": (
        "anthropic",
        [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}],
    ),
    "chat-text": ("openai-chat", [{"role": "user", "content": "hello"}]),
    "chat-blocks": (
        "openai-chat",
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    ),
    "chat-call": (
        "openai-chat",
        [
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                    }
                ],
            },
        ],
    ),
}


@pytest.mark.parametrize(("format", "messages"), HISTORIES.values(), ids=HISTORIES)
def test_a_history_is_recognised(format: str, messages: list[Any]) -> None:
    assert toolmend.repair(messages).format == format


PLAIN = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize("wire", [RESPONSES, "anthropic", "openai-chat"])
def test_plain_text_does_not_hide_what_stands_behind(wire: str) -> None:
    telling = next(history for name, history in HISTORIES.values() if name == wire)
    assert toolmend.repair([*PLAIN, *telling]).format == wire


UI_TEXT = {"type": "text", "text": "hello"}
FOREIGN: dict[str, list[Any]] = {
    "ai-sdk-ui-message": [{"id": "m1", "role": "user", "parts": [UI_TEXT]}],
    "ai-sdk-ui-tool": [
        {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}]},
        {
            "id": "m2",
            "role": "assistant",
            "parts": [
                {"type": "tool-look_up", "toolCallId": "a", "state": "input-available", "input": {}}
            ],
        },
    ],
    "ai-sdk-ui-user-without-type": [
        {"id": "m1", "role": "assistant", "parts": [{"text": "hello"}]},
    ],
    "ai-sdk-model-message": [
        {"role": "user", "content": [UI_TEXT]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "a", "toolName": "look_up", "input": {}}
            ],
        },
    ],
    "a2a-message": [
        {"kind": "message", "messageId": "1", "role": "user", "parts": [{"kind": "text"}]}
    ],
    "a2a-agent": [
        {"kind": "message", "messageId": "1", "role": "agent", "parts": [{"text": "hello"}]}
    ],
    "a2a-user-v1": [
        {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]},
    ],
    "pydantic-ai": [
        {"kind": "request", "parts": [{"content": "hello", "part_kind": "user-prompt"}]},
        {
            "kind": "response",
            "parts": [{"tool_name": "f", "args": "{}", "part_kind": "tool-call"}],
        },
    ],
    "langchain-dump": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {}}
    ],
    "langchain-to-dict": [{"type": "human", "data": {"content": "hello"}}],
    "langgraph-dump": [{"type": "ai", "content": "", "tool_calls": []}],
    "ollama": [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {"n": 1}}}],
        }
    ],
    "adk-event": [{"author": "user", "content": {"role": "user", "parts": [{"text": "hello"}]}}],
    "nothing": [{}],
    "numbers": [1, 2],
    "texts": ["hello"],
    "texts-without-type": [{"role": "user", "content": [{"value": "hello"}]}],
}


@pytest.mark.parametrize("messages", FOREIGN.values(), ids=FOREIGN)
def test_what_another_library_writes_is_not_taken_for_one_of_ours(messages: list[Any]) -> None:
    with pytest.raises(UnrecognizedHistoryError, match="format="):
        toolmend.repair(messages)


class ModelRequest:
    """As agent frameworks keep messages: objects with parts that have a kind."""

    kind = "request"

    def __init__(self) -> None:
        self.parts = [types.SimpleNamespace(part_kind="user-prompt", content="hello")]


def test_objects_of_another_library_are_not_taken_for_contents() -> None:
    with pytest.raises(UnrecognizedHistoryError, match="format="):
        toolmend.repair([ModelRequest()])
