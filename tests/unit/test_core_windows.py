"""Windows on the end of a history: where they begin, and that one repair is enough."""

from __future__ import annotations

from typing import Any

import pytest

import toolmend
from tests.unit.histories import assistant, tool, user
from toolmend import Policy
from toolmend.formats import FORMATS
from toolmend.tails import Tails

CHAT = FORMATS["openai-chat"]


def said(text: str = "ok") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def repair_twice(history: list[Any], policy: Policy, format: str | None = None) -> toolmend.Repair:
    outcome = toolmend.repair(history, format, policy)
    assert toolmend.repair(outcome.messages, format, policy).messages is outcome.messages
    return outcome


def test_a_result_ahead_of_its_call_is_not_parted_from_it() -> None:
    history = [user(), said(), user(), tool("a", "REAL"), assistant("a")]
    outcome = repair_twice(history, Policy(window=1))

    assert list(outcome.messages) == [*history[:3], history[4], history[3]]
    assert dict(outcome.counts)["patched"] == 0


def test_what_leaves_lets_others_into_sight() -> None:
    history = [user(), assistant("a"), user(), tool("x"), tool("y"), user()]
    outcome = repair_twice(history, Policy(window=4))

    assert dict(outcome.counts) | {"patched": 1, "orphan_results_removed": 2} == outcome.counts


def test_a_history_in_which_everything_leaves_is_looked_at_to_its_head() -> None:
    history = [user(), assistant("a"), *(tool(f"x{number}") for number in range(40))]
    outcome = repair_twice(history, Policy(window=2))

    assert len(outcome.messages) == 3
    assert outcome.counts["patched"] == 1


def test_answers_that_meet_at_the_cut_are_one() -> None:
    """The call before the window becomes one of the turn whose result moved."""

    def call(call_id: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}

    history = [
        {"type": "message", "role": "user", "content": "go"},
        call("b"),
        {"type": "function_call_output", "call_id": "a", "output": "REAL"},
        call("a"),
        {"type": "message", "role": "assistant", "content": "ok"},
    ]
    outcome = repair_twice(history, Policy(window=2))

    assert outcome.counts["patched"] == 1


def test_an_empty_content_at_the_cut_keeps_no_turns_apart() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}

    def answer(name: str) -> dict[str, Any]:
        part = {"functionResponse": {"name": name, "response": {"a": 1}}}
        return {"role": "user", "parts": [part]}

    history = [
        {"role": "user", "parts": [{"text": "go"}]},
        call("g"),
        {"role": "user", "parts": []},
        answer("f"),
        call("f"),
        {"role": "user", "parts": [{"text": "and"}]},
    ]
    repair_twice(history, Policy(window=2), "gemini")


def test_neighbours_that_become_one_are_not_divided() -> None:
    def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "content": list(blocks)}

    def use(call_id: str) -> dict[str, Any]:
        return {"toolUse": {"toolUseId": call_id, "name": "f", "input": {}}}

    def result(call_id: str) -> dict[str, Any]:
        return {"toolResult": {"toolUseId": call_id, "content": [{"text": "1"}]}}

    history = [
        turn("user", {"text": "go"}),
        turn("assistant", use("a"), use("b")),
        turn("user", result("a")),
        turn("user", {"text": "so"}),
        turn("user", result("b")),
        turn("assistant", {"text": "ok"}),
    ]
    outcome = repair_twice(history, Policy(window=2))

    assert [message["role"] for message in outcome.messages[1:]] == [
        "assistant",
        "user",
        "assistant",
    ]
    repair_twice(history, Policy(profile="bedrock-open-weights"))


@pytest.mark.parametrize(
    ("history", "size"),
    [
        pytest.param(
            [user(), assistant("a"), tool("a"), user(), assistant("b"), user()], 2, id="user"
        ),
        pytest.param(
            [user(), *(m for i in "abcd" for m in (assistant(i), tool(i)))], 3, id="agent loop"
        ),
    ],
)
def test_where_a_turn_begins_the_rest_is_not_read(history: list[Any], size: int) -> None:
    tails = Tails(history, CHAT, Policy())
    near, far = tails.near(size), tails.far(size)

    assert near is not None
    assert far is not None
    assert (near.start, near.role_before) == (far.start, far.role_before)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([user(), assistant("a"), user(), tool("a"), user()], id="its call is before"),
        pytest.param(
            [user(), assistant("a"), user(), tool("a"), assistant("a")], id="early or late"
        ),
        pytest.param([user(), assistant(""), user(), assistant(""), tool("")], id="no id"),
        pytest.param(
            [user(), assistant("a"), tool("a"), tool("b"), assistant("b")], id="may have come early"
        ),
        pytest.param([user(), assistant("a", "b"), tool("a"), tool("b")], id="no turn begins"),
        pytest.param(
            [user(), said(), user(), {"role": "assistant", "tool_calls": "x"}], id="not readable"
        ),
    ],
)
def test_what_takes_all_to_tell_is_left_to_who_reads_all(history: list[Any]) -> None:
    assert Tails(history, CHAT, Policy()).near(len(history) - 2) is None
