"""What hosts ask beyond their format: shorter ids, bridges, joined messages; and looking at the end only."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import toolmend
from tests.unit.histories import assistant, clean, dangling, tool, user
from toolmend import Policy
from toolmend.errors import PolicyError
from toolmend.mending.texts import ASSISTANT_BRIDGE

LONG = "tooluse_" + "k" * 40


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"profile": "gpt"}, "profile must be one of None, 'mistral'"),
        ({"max_id_len": 8}, "max_id_len must be a number from 9 up, or None; got 8"),
        ({"max_id_len": True}, "max_id_len must be a number"),
        ({"max_id_len": "40"}, "max_id_len must be a number"),
        ({"window": 0}, "window must be a number from 1 up, or None; got 0"),
        ({"window": 1.5}, "window must be a number"),
        ({"strict_alternation": "yes"}, "strict_alternation must be one of True, False"),
        ({"text_from_record": None}, "text_from_record must be one of True, False"),
    ],
)
def test_a_value_that_cannot_work_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(message)):
        Policy(**fields)


@pytest.mark.parametrize("limit", [9, 15, 16, 20, 36, 40, 64])
def test_a_long_id_gets_a_shorter_one_on_both_sides(limit: int) -> None:
    other = "k" * 70
    history = [
        user(),
        assistant(LONG, other, "c1"),
        tool(other, "2"),
        tool(LONG, "1"),
        tool("c1", "3"),
        user(),
    ]
    mended = toolmend.repair(history, policy=Policy(max_id_len=limit)).messages
    first, second, short = [call["id"] for call in mended[1]["tool_calls"]]

    assert short == "c1"
    assert max(len(first), len(second)) <= limit
    assert first != second
    assert {m["tool_call_id"]: m["content"] for m in mended[2:5]} == {
        first: "1",
        second: "2",
        "c1": "3",
    }
    again = toolmend.repair(mended, policy=Policy(max_id_len=limit))
    assert again.messages is mended


def test_a_shorter_id_is_the_same_in_any_window_of_the_history() -> None:
    policy = Policy(max_id_len=40)
    turn = [user(), assistant(LONG), tool(LONG), user()]
    alone = toolmend.repair(turn, policy=policy).messages
    behind = toolmend.repair([*clean(), *turn], policy=policy).messages

    assert alone[1:] == behind[-3:]


@pytest.mark.parametrize("bad", ["call_1", "abc", "abcdefghij", "abcdefg-1", "abcdefgh "])
def test_mistral_gets_ids_of_nine_letters_and_digits(bad: str) -> None:
    history = [user(), assistant(bad, "aB3dE5fG7"), tool("aB3dE5fG7"), tool(bad)]
    mended = toolmend.repair(history, policy=Policy(profile="mistral")).messages
    new, kept = [call["id"] for call in mended[1]["tool_calls"]]

    assert re.fullmatch(r"[a-zA-Z0-9]{9}", new)
    assert kept == "aB3dE5fG7"
    assert {message["tool_call_id"] for message in mended[2:]} == {new, kept}


def test_mistral_gets_an_answer_between_a_result_and_the_user() -> None:
    history = [user(), assistant("aB3dE5fG7"), tool("aB3dE5fG7"), user("next"), user("more")]
    outcome = toolmend.repair(history, policy=Policy(profile="mistral"))

    assert [message["role"] for message in outcome.messages] == [
        *("user", "assistant", "tool", "assistant", "user", "user")
    ]
    assert outcome.messages[3]["content"] == ASSISTANT_BRIDGE["en"]
    assert [(f.kind, f.action, f.index) for f in outcome.findings] == [("role_order", "bridged", 3)]
    assert toolmend.repair(outcome.messages, policy=Policy(profile="mistral")).changed is False
    assert toolmend.repair(history).changed is False


def test_mistral_bridges_langchain_messages_too() -> None:
    history = [
        HumanMessage("u"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "aB3dE5fG7"}]),
        ToolMessage("42", tool_call_id="aB3dE5fG7"),
        HumanMessage("v"),
    ]
    mended = toolmend.repair(history, policy=Policy(profile="mistral", language="zh")).messages

    assert [type(message) for message in mended[2:]] == [ToolMessage, AIMessage, HumanMessage]
    assert mended[3].content == ASSISTANT_BRIDGE["zh"]


@pytest.mark.parametrize(
    "blank", [user(""), {"role": "system", "content": None}, {"role": "assistant", "content": ""}]
)
def test_dashscope_gets_no_empty_message(blank: dict[str, Any]) -> None:
    history = [user(), blank, *clean()]
    outcome = toolmend.repair(history, policy=Policy(profile="dashscope"))

    assert outcome.messages == [user(), *clean()]
    assert outcome.counts["empty_messages_removed"] == 1
    assert toolmend.repair(history).changed is False


def test_an_empty_result_is_a_result_for_dashscope_too() -> None:
    history = [user(), assistant("c1"), tool("c1", ""), user()]

    assert toolmend.repair(history, policy=Policy(profile="dashscope")).changed is False


def test_deepseek_keeps_the_reasoning_of_calls() -> None:
    calls = {**assistant("c1"), "reasoning_content": "hm"}
    mended = toolmend.repair(
        [user(), calls, user("next")], policy=Policy(profile="deepseek-thinking")
    ).messages

    assert mended[1] is calls
    assert [message["role"] for message in mended] == ["user", "assistant", "tool", "user"]


def use(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": call_id, "name": "f", "input": {}} for call_id in ids]
    return {"role": "assistant", "content": blocks}


def results(*ids: str, text: str = "") -> dict[str, Any]:
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": call_id} for call_id in ids
    ]
    return {"role": "user", "content": blocks + ([{"type": "text", "text": text}] if text else [])}


def test_results_of_one_batch_are_joined_for_hosts_that_do_not_join() -> None:
    history = [user(), use("a", "b", "c"), results("a"), results("b"), results("c", text="and?")]
    outcome = toolmend.repair(history, policy=Policy(strict_alternation=True))

    assert outcome.messages == [user(), use("a", "b", "c"), results("a", "b", "c", text="and?")]
    assert outcome.counts["merged_messages"] == 2
    assert toolmend.repair(history).messages is history
    assert (
        toolmend.repair(outcome.messages, policy=Policy(strict_alternation=True)).changed is False
    )


def test_neighbours_that_a_drop_leaves_are_joined_for_hosts_that_do_not_join() -> None:
    policy = Policy(strict_alternation=True, dangling="drop")
    outcome = toolmend.repair([user("one"), use("a"), user("two")], "anthropic", policy)

    [message] = outcome.messages
    assert message["role"] == "user"
    assert [block["text"] for block in message["content"]] == ["one", "two"]
    assert dict(outcome.counts)["dropped"] == 1
    assert "merged_messages" not in outcome.counts


# Looking at the end only


@pytest.mark.parametrize(
    ("history", "window", "touched"),
    [
        pytest.param([*dangling(), *dangling()], 3, True, id="the later of two"),
        pytest.param([*dangling(), *clean()], 4, False, id="the earlier is out of sight"),
        pytest.param([*dangling(), *clean()], 5, False, id="a cut behind an open call"),
        pytest.param([*dangling(), *clean()], 6, True, id="the open call is in sight"),
        pytest.param([user(), assistant("a", "b"), tool("a"), user()], 1, False, id="text alone"),
        pytest.param([user(), assistant("a", "b"), tool("a"), user()], 2, True, id="in a batch"),
        pytest.param(
            [user(), assistant("a"), user(), tool("a"), user()], 2, True, id="late result"
        ),
        pytest.param([tool("zz"), *clean()], 4, False, id="an orphan out of sight"),
        pytest.param([tool("zz"), *clean()], 5, True, id="an orphan in sight"),
        pytest.param(dangling(), 99, True, id="wider than the history"),
    ],
)
def test_only_the_window_is_looked_at(history: list[Any], window: int, touched: bool) -> None:
    outcome = toolmend.repair(history, policy=Policy(window=window))

    assert outcome.changed is touched
    if not touched:
        assert outcome.messages is history
        assert outcome.findings == ()


def test_indices_are_those_of_the_whole_history() -> None:
    history = [*dangling(), *dangling()]
    outcome = toolmend.repair(history, policy=Policy(window=3))

    assert outcome.messages[:3] == dangling()
    assert all(one is two for one, two in zip(outcome.messages[:5], history, strict=False))
    assert [finding.index for finding in outcome.findings] == [4]
    assert [(edit.operation, edit.index) for edit in outcome.edits] == [("insert", 5)]
    assert outcome.first_changed_index == 5


def test_what_comes_first_in_a_window_is_not_the_head_of_the_history() -> None:
    history = [user("a"), use("a"), results("a"), {"role": "assistant", "content": "x"}, user("b")]
    bedrock = [
        {"role": "user", "content": [{"text": "a"}]},
        {"role": "assistant", "content": [{"text": "b"}]},
        {"role": "user", "content": [{"text": "c"}]},
    ]

    assert toolmend.repair(history, "anthropic", Policy(window=2)).messages is history
    assert toolmend.repair(bedrock, policy=Policy(window=2)).messages is bedrock
    assert toolmend.repair(bedrock[1:], policy=Policy(window=2)).changed is True


def test_no_beginning_is_made_up_for_a_window_that_is_mended() -> None:
    """It begins with calls, which may not stand at the head of a whole history."""
    history = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "g", "args": {}}}]},
    ]
    outcome = toolmend.repair(history, policy=Policy(window=3))

    assert outcome.messages[:4] == history
    assert dict(outcome.counts)["patched"] == 1
    assert "stub_messages" not in outcome.counts


# Causes that are known from elsewhere


def test_a_recorded_cause_is_told_and_stays_out_of_the_text() -> None:
    plain = toolmend.repair(dangling())
    told = toolmend.repair(dangling(), causes={"c1": "timeout", "c9": "crashed"})

    assert [finding.cause for finding in plain.findings] == ["interrupted"]
    assert [finding.cause for finding in told.findings] == ["timeout"]
    assert told.messages == plain.messages


def test_a_recorded_cause_enters_the_text_where_that_is_wanted() -> None:
    policy = Policy(placeholder="{tool_name}: {cause}", text_from_record=True)
    told = toolmend.repair(dangling(), policy=policy, causes={"c1": "timeout"})

    assert told.messages[2]["content"] == "search: timeout"
    real = [*told.messages[:3], tool("c1", "late"), user("next")]
    assert toolmend.repair(real, policy=policy).messages[2]["content"] == "late"


def test_a_cause_that_nobody_knows_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"there is no cause 'bored'; use one of in_flight, "):
        toolmend.repair(dangling(), causes={"c1": "bored"})


# A mode for each thread


def test_repair_asks_a_mode_function_without_a_thread() -> None:
    asked = []

    def mode(thread: str | None) -> Any:
        asked.append(thread)
        return "observe"

    history = dangling()
    assert toolmend.repair(history, policy=Policy(mode=mode)).messages is history
    assert asked == [None]


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(PolicyError, match="what the mode function returns must be one of"):
        toolmend.repair(dangling(), policy=Policy(mode=lambda thread: "off"))
