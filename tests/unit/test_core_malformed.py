"""Histories that are not histories: they are mended or refused in one clear line, and nothing else escapes."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import toolmend
from toolmend.errors import HistoryError, MalformedHistoryError, UnrecognizedHistoryError

USER = {"role": "user", "content": "hello"}
DEPTH = 10_000
DIGITS = 5_000
POLICIES = {
    "default": None,
    "drop": toolmend.Policy(dangling="drop", placeholder="{tool_name} {call_id} {cause}"),
    "server": toolmend.Policy(server_state=True, in_flight=lambda call_id: call_id == "a"),
}


def chat_call(id: Any = "a", arguments: Any = "{}", name: Any = "look_up") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def chat(*calls: Any, content: Any = None) -> list[Any]:
    return [USER, {"role": "assistant", "content": content, "tool_calls": list(calls)}, USER]


def chat_result(id: Any, content: Any = "done") -> list[Any]:
    return [*chat(chat_call())[:2], {"role": "tool", "tool_call_id": id, "content": content}]


def block(id: Any = "a", input: Any = None, name: Any = "look_up") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input}


def claude(*blocks: Any) -> list[Any]:
    return [USER, {"role": "assistant", "content": list(blocks)}, USER]


def claude_result(id: Any, content: Any = "done") -> list[Any]:
    result = {"type": "tool_result", "tool_use_id": id, "content": content}
    return [*claude(block())[:2], {"role": "user", "content": [result]}]


def chain(**fields: Any) -> list[Any]:
    message = AIMessage(content="")
    for name, value in fields.items():
        # Assignment is not validated: this is how such values get into a message.
        object.__setattr__(message, name, value)
    return [HumanMessage(content="hello"), message, HumanMessage(content="go on")]


def chain_call(id: Any = "a", args: Any = None, name: Any = "look_up") -> dict[str, Any]:
    return {"type": "tool_call", "id": id, "name": name, "args": {} if args is None else args}


def chain_result(id: Any, content: Any = "done") -> list[Any]:
    message = ToolMessage(content="x", tool_call_id="x")
    object.__setattr__(message, "tool_call_id", id)
    object.__setattr__(message, "content", content)
    return [*chain(tool_calls=[chain_call()])[:2], message]


def nested(kind: type) -> Any:
    value: Any = "end"
    for _ in range(DEPTH):
        value = [value] if kind is list else {"a": value}
    return value


def cycle() -> Any:
    value: dict[str, Any] = {"n": 1}
    value["self"] = value
    return value


def cyclic_list() -> list[Any]:
    value: list[Any] = [{"type": "text", "text": "hello"}]
    value.append(value)
    return value


class Unordered:
    """A value that JSON does not know."""


LONG_TEXT = '{"a": "' + "x" * 100_000 + '"}'
HUGE_TEXT = '{"a": "' + "x" * 50_000_000 + '"}'
DEEP_TEXT = '{"a": ' * DEPTH + "1" + "}" * DEPTH
HUGE_NUMBER = '{"n": ' + "9" * DIGITS + "}"
BAD_IDS: dict[str, Any] = {
    "none": None,
    "empty": "",
    "number": 7,
    "huge-number": 10**DIGITS,
    "bytes": b"a",
    "list": ["a"],
    "dict": {"a": 1},
    "lone-surrogate": "\ud800",
    "nul": "a\0b",
    "nan": float("nan"),
}
BAD_VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "float": lambda: 1.5,
    "bool": lambda: True,
    "text": lambda: "nonsense",
    "bytes": lambda: b"{}",
    "list": lambda: [1, 2],
    "tuple": lambda: ({},),
    "set": lambda: {1},
    "object": Unordered,
    "cycle": cycle,
    "cyclic-list": cyclic_list,
    "deep-list": lambda: nested(list),
    "deep-dict": lambda: nested(dict),
    "deep-text": lambda: DEEP_TEXT,
    "long-text": lambda: LONG_TEXT,
    "huge-number-text": lambda: HUGE_NUMBER,
    "huge-number": lambda: {"n": 10**DIGITS},
    "odd-keys": lambda: {1: 2, "a": 3, None: 4, (1, 2): 5},
    "nan": lambda: {"n": float("nan")},
    "lone-surrogate": lambda: "\ud800",
    "nested-bytes": lambda: {"a": b"x"},
}
BAD_ITEMS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "text": lambda: "hello",
    "bytes": lambda: b"hello",
    "list": lambda: [USER],
    "tuple": lambda: ("user",),
    "empty-dict": dict,
    "no-role": lambda: {"content": "hello"},
    "role-none": lambda: {"role": None, "content": "hello"},
    "role-number": lambda: {"role": 7, "content": "hello"},
    "role-list": lambda: {"role": ["user"], "content": "hello"},
    "type": lambda: dict,
    "object": Unordered,
    "mapping": lambda: types.MappingProxyType(USER),
    "ordered": lambda: collections.OrderedDict(USER),
}


def cases() -> Iterator[Any]:
    for name, make in BAD_ITEMS.items():
        for wire in ("openai-chat", "anthropic", "langchain", None):
            yield pytest.param(
                wire, lambda make=make: [USER, make(), USER], id=f"{wire}-item-{name}"
            )
    for name, value in BAD_IDS.items():
        for where, wire, make in (
            ("call", "openai-chat", lambda v: chat(chat_call(v), chat_call(v))),
            ("result", "openai-chat", chat_result),
            ("call", "anthropic", lambda v: claude(block(v), block(v))),
            ("result", "anthropic", claude_result),
            ("call", "langchain", lambda v: chain(tool_calls=[chain_call(v), chain_call(v)])),
            ("result", "langchain", chain_result),
        ):
            yield pytest.param(
                wire,
                lambda make=make, value=value: make(value),
                id=f"{wire}-{where}-id-{name}",
            )
    twice: dict[str, tuple[str, Callable[[Any], list[Any]]]] = {
        # Twice the same call, so that the arguments have to be compared.
        "arguments": ("openai-chat", lambda v: chat(chat_call("a", v), chat_call("a", v))),
        "name": ("openai-chat", lambda v: chat(chat_call(name=v), chat_call(name=v))),
        "tool-calls": ("openai-chat", lambda v: [USER, {"role": "assistant", "tool_calls": v}]),
        "tool-call": ("openai-chat", lambda v: chat(v, v)),
        "function": ("openai-chat", lambda v: chat({"id": "a", "function": v})),
        "custom": ("openai-chat", lambda v: chat({"id": "a", "type": "custom", "custom": v})),
        "call-type": ("openai-chat", lambda v: chat({**chat_call(), "type": v})),
        "content": ("openai-chat", lambda v: chat(content=v)),
        "user-content": ("openai-chat", lambda v: [*chat(chat_call()), {**USER, "content": v}]),
        "result-content": ("openai-chat", lambda v: chat_result("a", v) + chat_result("a", v)[2:]),
        "input": ("anthropic", lambda v: claude(block("a", v), block("a", v))),
        "block-name": ("anthropic", lambda v: claude(block(name=v), block(name=v))),
        "block": ("anthropic", lambda v: claude(v, block())),
        "block-type": ("anthropic", lambda v: claude({"type": v}, block())),
        "message-content": ("anthropic", lambda v: [USER, {"role": "assistant", "content": v}]),
        "user-message-content": (
            "anthropic",
            lambda v: [*claude(block())[:2], {**USER, "content": v}],
        ),
        "tool-result-content": (
            "anthropic",
            lambda v: claude_result("a", v) + claude_result("a", v)[2:],
        ),
        "text": ("anthropic", lambda v: claude({"type": "text", "text": v}, block())),
        "caller": ("anthropic", lambda v: claude({**block(), "caller": v})),
        "server-name": (
            "anthropic",
            lambda v: claude({"type": "server_tool_use", "id": "s", "name": v, "input": v}),
        ),
        "args": ("langchain", lambda v: chain(tool_calls=[chain_call("a", v), chain_call("a", v)])),
        "chain-calls": ("langchain", lambda v: chain(tool_calls=v)),
        "chain-call": ("langchain", lambda v: chain(tool_calls=[v])),
        "invalid-calls": ("langchain", lambda v: chain(invalid_tool_calls=v)),
        "invalid-call": ("langchain", lambda v: chain(invalid_tool_calls=[v, v])),
        "kwargs": ("langchain", lambda v: chain(additional_kwargs=v)),
        "kwargs-calls": ("langchain", lambda v: chain(additional_kwargs={"tool_calls": v})),
        "kwargs-call": ("langchain", lambda v: chain(additional_kwargs={"tool_calls": [v]})),
        "chain-content": ("langchain", lambda v: chain(content=v, tool_calls=[chain_call()])),
        "chain-block": ("langchain", lambda v: chain(content=[v], tool_calls=[chain_call()])),
        "chain-block-type": (
            "langchain",
            lambda v: chain(
                content=[{"type": v}, {**block(), "type": v}], tool_calls=[chain_call()]
            ),
        ),
        "chain-call-type": (
            "langchain",
            lambda v: chain(tool_calls=[{**chain_call(None), "type": v}]),
        ),
        "dict-in-chain": (
            "langchain",
            lambda v: [*chain(), {"role": "assistant", "tool_calls": v}],
        ),
        "server-id": (
            "anthropic",
            lambda v: claude({"type": "server_tool_use", "id": v, "name": "advisor", "input": {}}),
        ),
        "chain-result": ("langchain", lambda v: chain_result("a", v) + chain_result("a", v)[2:]),
    }
    for where, (wire, build) in twice.items():
        for name, make_value in BAD_VALUES.items():
            yield pytest.param(
                wire,
                lambda build=build, make_value=make_value: build(make_value()),
                id=f"{wire}-{where}-{name}",
            )


@pytest.mark.parametrize(("format", "make"), list(cases()))
def test_it_is_mended_or_refused_in_one_line(
    format: str | None, make: Callable[[], list[Any]]
) -> None:
    for name, policy in POLICIES.items():
        with_policy(format, make, policy, name)


def with_policy(
    format: str | None, make: Callable[[], list[Any]], policy: toolmend.Policy | None, name: str
) -> None:
    messages = make()
    items = list(messages)
    outcome, refusal = attempt(messages, format, policy)
    if outcome is not None:
        assert toolmend.check(messages, format=format, policy=policy) == outcome.findings, name
        again = toolmend.repair(outcome.messages, format=format or outcome.format, policy=policy)
        assert policy is not None or again.messages is outcome.messages, name
    else:
        text = str(refusal)
        assert "\n" not in text
        assert "; " in text, "the cure is missing"
        assert len(text) < 300
        if isinstance(refusal, MalformedHistoryError):
            assert f"messages[{refusal.index}]" in text
            assert format in (refusal.format, None)
    assert all(one is two for one, two in zip(items, messages, strict=True))


def attempt(
    messages: list[Any], format: str | None, policy: toolmend.Policy | None
) -> tuple[Any, HistoryError | None]:
    try:
        return toolmend.repair(messages, format=format, policy=policy), None
    except HistoryError as error:
        return None, error


@pytest.mark.parametrize(
    "messages",
    [None, 7, "hello", b"hello", {"role": "user"}, {1, 2}, iter(()), USER.items()],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("format", [None, "openai-chat", "anthropic", "langchain"])
def test_what_is_no_list_is_refused(messages: Any, format: str | None) -> None:
    with pytest.raises(HistoryError, match=r"must be a list of messages; "):
        toolmend.repair(messages, format=format)


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnrecognizedHistoryError, match="openai-chat"):
        toolmend.repair([USER], format="telegraph")


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}],
        [{"role": "agent", "parts": [{"text": "hello"}]}],
        [{"type": "message", "content": "hello"}],
        [{"type": "request", "id": "a"}],
        [{"role": "user", "content": [{"speech": "hi"}]}],
        [None],
        [7, "x"],
    ],
    ids=["typed parts", "agent", "no role", "other items", "other blocks", "none", "scalars"],
)
def test_a_history_of_another_kind_is_not_guessed(messages: list[Any]) -> None:
    with pytest.raises(UnrecognizedHistoryError, match="format="):
        toolmend.repair(messages)


@pytest.mark.parametrize("messages", [[], ()], ids=["list", "tuple"])
def test_an_empty_history_is_fine(messages: Any) -> None:
    outcome = toolmend.repair(messages)
    assert outcome.messages is messages
    assert outcome.format == "unknown"
    assert not outcome.changed


def _huge_contents() -> list[Any]:
    return [
        pytest.param("openai-chat", chat_result("a", HUGE_TEXT), id="openai-chat"),
        pytest.param("anthropic", claude_result("a", HUGE_TEXT), id="anthropic"),
        pytest.param("langchain", chain_result("a", HUGE_TEXT), id="langchain"),
    ]


@pytest.mark.parametrize(("format", "messages"), _huge_contents())
def test_a_huge_result_is_carried_and_never_copied(format: str, messages: list[Any]) -> None:
    outcome = toolmend.repair([*messages, *messages[1:2]], format=format)
    assert outcome.messages[:3] == messages
    assert outcome.messages[2] is messages[2]


@pytest.mark.parametrize(
    "arguments", [HUGE_NUMBER, DEEP_TEXT, HUGE_TEXT], ids=["digits", "depth", "length"]
)
def test_arguments_past_the_limits_of_a_parser_stay_as_they_are(arguments: str) -> None:
    messages = chat(chat_call("a", arguments))
    outcome = toolmend.repair(messages)
    assert [finding.kind for finding in outcome.findings] == ["dangling_call"]
    assert outcome.messages[1] is messages[1]


def test_calls_with_integers_past_the_limit_are_told_apart() -> None:
    messages = claude(block("a", {"n": 10**DIGITS}), block("a", {"n": 10**DIGITS + 1}))
    outcome = toolmend.repair(messages)
    assert [f.kind for f in outcome.findings if f.kind != "dangling_call"] == ["colliding_id"]


def test_refusals_can_be_caught_as_value_errors() -> None:
    with pytest.raises(ValueError, match="messages"):
        toolmend.repair([USER, {"role": 7}], format="openai-chat")
