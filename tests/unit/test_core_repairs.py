"""Histories that were mended wrongly once."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

import toolmend
from tests.unit.histories import assistant, tool, user
from toolmend import Policy
from toolmend.testing import problems


def content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


HI = content("user", {"text": "hi"})
CALL = {"functionCall": {"name": "f", "args": {}}}
ANSWER = {"functionResponse": {"name": "f", "response": {"a": 1}}}


@pytest.mark.parametrize("role", ["user", "function", "tool", None])
def test_a_response_is_one_in_any_role_that_sdks_give_it(role: str | None) -> None:
    history = [HI, content("model", CALL), {"role": role, "parts": [ANSWER]}]

    assert toolmend.repair(history).messages is history
    assert problems(history, format="gemini") == []
    assert toolmend.repair(history[2:], "gemini").counts["orphan_results_removed"] == 1


@pytest.mark.parametrize(
    "item",
    [
        types.Part.from_function_response(name="f", response={"a": 1}),
        ANSWER,
    ],
    ids=["object", "dict"],
)
def test_a_part_without_a_content_is_an_answer_all_the_same(item: Any) -> None:
    outcome = toolmend.repair([HI, content("model", CALL), item], "gemini")

    assert outcome.findings == ()
    assert outcome.messages[2] is item


def test_answers_without_contents_are_gathered_where_one_is_missing() -> None:
    other = {"functionCall": {"name": "g", "args": {}}}
    mended = toolmend.repair([HI, content("model", CALL, other), ANSWER], "gemini").messages

    assert mended[2]["role"] == "user"
    assert mended[2]["parts"][0] is ANSWER
    assert mended[2]["parts"][1]["functionResponse"]["name"] == "g"


@pytest.mark.parametrize(
    "item",
    [
        types.Part(text="do not lose me"),
        {"text": "do not lose me"},
        types.File(uri="https://example.org/a.png"),
        {"role": "user", "content": "do not lose me"},
        "do not lose me",
    ],
    ids=["part", "dict", "file", "other message", "text"],
)
def test_what_the_user_says_without_a_content_is_kept(item: Any) -> None:
    history = [HI, content("model", CALL), item]
    mended = toolmend.repair(history, "gemini").messages

    assert mended[-1] is item
    assert len(mended) == 4


def test_a_real_result_behind_the_words_of_the_model_goes_back_to_its_call() -> None:
    signed = {**CALL, "thoughtSignature": "S"}
    stored = {
        "functionResponse": {
            "name": "f",
            "response": {
                "error": toolmend.repair([HI, content("model", CALL)]).messages[2]["parts"][0][
                    "functionResponse"
                ]["response"]["error"]
            },
        }
    }
    history = [
        HI,
        content("model", signed),
        content("user", stored),
        content("model", {"text": "Sorry."}),
        content("user", ANSWER),
    ]
    outcome = toolmend.repair(history)

    assert outcome.messages == [
        HI,
        content("model", signed),
        content("user", ANSWER),
        content("model", {"text": "Sorry."}),
    ]
    assert outcome.messages[1] is history[1], "what is signed stays as it is"
    assert (outcome.counts["duplicates_removed"], outcome.counts["moved"]) == (1, 1)


def test_a_placeholder_of_a_function_is_known_again_when_arguments_were_mended() -> None:
    policy = Policy(placeholder=lambda call: f"{call.name}({call.arguments}) gave no result.")
    calls = assistant("a")
    calls["tool_calls"][0]["function"]["arguments"] = '{"eur": 5'
    first = toolmend.repair([user(), calls, user()], policy=policy)
    late = [*first.messages, tool("a", "REAL: paid")]
    outcome = toolmend.repair(late, policy=policy)

    assert [m["content"] for m in outcome.messages if m["role"] == "tool"] == ["REAL: paid"]


def test_a_placeholder_of_a_function_is_known_again_when_a_text_became_an_object() -> None:
    policy = Policy(placeholder=lambda call: f"{call.arguments} gave no result.")
    use = {"type": "tool_use", "id": "a", "name": "f", "input": '{"eur": 5}'}
    history = [user(), {"role": "assistant", "content": [use]}, user("well?")]
    first = toolmend.repair(history, policy=policy).messages
    late = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": "REAL"}],
    }
    outcome = toolmend.repair([*first, late], policy=policy)

    assert "REAL" in str(outcome.messages)


def test_what_leaves_at_the_cut_of_a_window_makes_no_neighbours_of_one_role() -> None:
    history = [
        {"role": "user", "content": [{"text": "a"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "x", "name": "f", "input": {}}}],
        },
        {"role": "user", "content": [{"text": "b"}]},
    ]
    policy = Policy(window=2, dangling="drop")
    outcome = toolmend.repair(history, policy=policy)

    assert problems(outcome.messages, format="bedrock") == []
    assert toolmend.repair(outcome.messages, policy=policy).changed is False


def test_a_reference_before_the_window_keeps_what_is_on_the_server() -> None:
    history = [
        {"type": "item_reference", "id": "msg_1"},
        {"type": "function_call_output", "call_id": "c9", "output": "one"},
        {"type": "message", "role": "user", "content": "go"},
        {"type": "function_call_output", "call_id": "c8", "output": "REAL"},
        {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{}"},
    ]
    mended = toolmend.repair(history, policy=Policy(window=3)).messages

    assert history[3] in mended


def test_a_new_id_in_a_window_meets_none_before_it() -> None:
    def use(call_id: str) -> list[dict[str, Any]]:
        block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": "1"}
        return [
            user(),
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [answer]},
            {"role": "assistant", "content": "ok"},
        ]

    new = toolmend.repair(use("a b")).messages[1]["content"][0]["id"]
    history = [*use(new), *use("a b")]
    mended = toolmend.repair(history, policy=Policy(window=4)).messages

    assert mended[5]["content"][0]["id"] not in {new, "a b"}
    assert problems(mended, format="anthropic") == []


def fc(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


GO = {"type": "message", "role": "user", "content": "go"}


@pytest.mark.parametrize("kind", ["web_search_call", "mcp_call", "mcp_approval_request", "program"])
def test_calls_beside_hosted_items_are_of_one_answer(kind: str) -> None:
    history = [GO, fc("a"), {"type": kind, "id": "x_1"}, fc("b")]
    left = toolmend.repair(history, policy=Policy(trailing="leave"))
    assert left.messages is history
    assert [finding.kind for finding in left.findings] == ["pending_call"] * 2

    mended = toolmend.repair(history).messages
    assert [item.get("type") for item in mended[-3:]] == [
        *("function_call", "function_call_output", "function_call_output")
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "program", "id": "p_1"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "additional_tools", "tools": []},
        {"id": "msg_1"},
    ],
    ids=["program", "compaction", "tools", "reference"],
)
def test_items_of_the_newest_sdk_are_recognised(item: dict[str, Any]) -> None:
    outcome = toolmend.repair([item, GO, fc("a"), GO])

    assert outcome.format == "openai-responses"
    assert outcome.counts["patched"] == 1


POINT = {"cachePoint": {"type": "default"}}


def test_a_cache_point_leaves_with_what_it_stands_beside() -> None:
    use = {"toolUse": {"toolUseId": "x", "name": "f", "input": {}}}
    history = [
        {"role": "user", "content": [{"text": "a"}]},
        {"role": "assistant", "content": [use, POINT]},
        {"role": "user", "content": [{"text": "b"}]},
    ]
    mended = toolmend.repair(history, policy=Policy(dangling="drop")).messages

    assert mended == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]
    assert toolmend.repair(history).messages[1] is history[1]


def test_a_cache_point_stays_with_its_results() -> None:
    use = {"toolUse": {"toolUseId": "x", "name": "f", "input": {}}}
    answer = {"toolResult": {"toolUseId": "x", "content": [{"text": "1"}]}}
    history = [
        {"role": "user", "content": [{"text": "a"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [answer, POINT]},
    ]
    policy = Policy(profile="bedrock-open-weights")
    assert toolmend.repair(history, policy=policy).messages is history

    history[2] = {"role": "user", "content": [answer, POINT, {"text": "b"}]}
    mended = toolmend.repair(history, policy=policy).messages
    assert [message["content"] for message in mended[2::2]] == [[answer, POINT], [{"text": "b"}]]
    assert toolmend.repair(mended, policy=policy).messages is mended


def test_a_cache_point_in_front_is_no_result() -> None:
    """Else a host that wants results alone would be told that something stands beside them."""
    history = [
        {"role": "user", "content": [POINT, {"text": "go"}]},
        {"role": "assistant", "content": [POINT]},
        {"role": "assistant", "content": [{"text": "ok"}]},
    ]
    outcome = toolmend.repair(history, policy=Policy(profile="bedrock-open-weights"))

    assert outcome.messages[0] is history[0]
    assert dict(outcome.counts)["merged_messages"] == 1
    assert "bridge_messages" not in outcome.counts


def test_a_result_stands_behind_all_that_was_said_beside_a_call_that_runs() -> None:
    hosted = {"type": "mcp_call", "id": "h_1"}
    result = {"type": "function_call_output", "call_id": "b", "output": "1"}
    policy = Policy(in_flight=["a"])
    outcome = toolmend.repair([GO, result, fc("a"), fc("b"), hosted], policy=policy)

    assert list(outcome.messages) == [GO, fc("a"), fc("b"), hosted, result]
    assert toolmend.repair(outcome.messages, policy=policy).messages is outcome.messages
