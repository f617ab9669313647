"""Who answers whom, and what is joined, where formats pair by name or want their messages in a shape."""

from __future__ import annotations

from typing import Any

import pytest

import toolmend

SAY = {"role": "user", "parts": [{"text": "go"}]}
ANSWER = {"role": "model", "parts": [{"text": "done"}]}


def model(*calls: tuple[str, str | None], text: str = "") -> dict[str, Any]:
    parts: list[Any] = [{"text": text}] if text else []
    for number, (name, call_id) in enumerate(calls):
        call: dict[str, Any] = {"name": name, "args": {"n": number}}
        parts.append({"functionCall": call if call_id is None else {**call, "id": call_id}})
    return {"role": "model", "parts": parts}


def responses(*answers: tuple[str, str | None, str]) -> dict[str, Any]:
    parts: list[Any] = []
    for name, call_id, text in answers:
        answer: dict[str, Any] = {"name": name, "response": {"result": text}}
        parts.append({"functionResponse": answer if call_id is None else {**answer, "id": call_id}})
    return {"role": "user", "parts": parts}


def answered(messages: Any) -> list[list[tuple[Any, Any]]]:
    """Return (id, text) of the responses, content by content."""
    return [
        [
            (answer.get("id"), answer["response"].get("result"))
            for part in message["parts"]
            if (answer := part.get("functionResponse")) is not None
        ]
        for message in messages
        if any("functionResponse" in part for part in message["parts"])
    ]


@pytest.mark.parametrize(
    "answers",
    [
        [("f", None, "one"), ("f", "b", "two")],
        [("f", "b", "two"), ("f", None, "one")],
    ],
    ids=["in-order", "id-first"],
)
def test_calls_of_one_name_with_and_without_an_id_keep_their_responses(answers: Any) -> None:
    messages = [SAY, model(("f", None), ("f", "b")), responses(*answers), ANSWER]
    assert toolmend.repair(messages).messages is messages


def test_a_response_without_an_id_answers_a_call_without_one_first() -> None:
    messages = [SAY, model(("f", "b"), ("f", None)), responses(("f", None, "one")), ANSWER]
    assert answered(toolmend.repair(messages).messages) == [[("b", None), (None, "one")]]


def test_a_response_without_an_id_gets_that_of_the_only_call() -> None:
    messages = [SAY, model(("f", "b")), responses(("f", None, "one")), ANSWER]
    assert answered(toolmend.repair(messages).messages) == [[("b", "one")]]


def test_the_id_of_an_answered_call_does_not_take_a_response_away() -> None:
    messages = [
        SAY,
        model(("f", "b")),
        responses(("f", "b", "one")),
        model(("f", None)),
        responses(("f", "b", "two")),
        ANSWER,
    ]
    assert toolmend.repair(messages).messages is messages


def test_a_late_response_goes_back_to_the_open_call_of_its_id() -> None:
    messages = [
        SAY,
        model(("f", "b")),
        SAY,
        model(("f", None)),
        responses(("f", "b", "late"), ("f", None, "own")),
        ANSWER,
    ]
    outcome = toolmend.repair(messages)
    assert answered(outcome.messages) == [[("b", "late")], [(None, "own")]]
    assert outcome.counts["moved"] == 1


def test_all_that_the_model_said_before_its_calls_becomes_one_content() -> None:
    messages = [
        SAY,
        model(text="one"),
        model(text="two"),
        model(("f", None), text="three"),
        responses(("f", None, "x")),
    ]
    outcome = toolmend.repair(messages)
    assert [len(message["parts"]) for message in outcome.messages] == [1, 4, 1]
    assert toolmend.repair(outcome.messages).messages is outcome.messages


def test_users_are_not_joined_where_no_turn_was_dropped_between() -> None:
    one, two = ({"role": "user", "parts": [{"text": text}]} for text in ("one", "two"))
    messages = [SAY, model(("f", None)), one, responses(("f", None, "late")), two, ANSWER]
    outcome = toolmend.repair(messages)
    assert outcome.messages[3:] == [one, two, ANSWER]


def test_reasoning_right_before_a_result_that_stays_leads_to_nothing() -> None:
    thinking = {"type": "reasoning", "id": "rs_1", "summary": []}
    messages = [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        thinking,
        {"type": "function_call_output", "call_id": "a", "output": "done"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "done"},
    ]
    outcome = toolmend.repair(messages)
    assert outcome.messages == [item for item in messages if item is not thinking]


SCREENSHOT = {"type": "computer_screenshot", "image_url": "https://example.org/a.png"}


@pytest.mark.parametrize(
    ("family", "output"),
    [
        ("function", [{"type": "input_image", "image_url": SCREENSHOT["image_url"]}]),
        (
            "apply_patch",
            '{"image_url": "https://example.org/a.png", "type": "computer_screenshot"}',
        ),
    ],
)
def test_a_screenshot_becomes_what_the_family_of_its_call_takes(family: str, output: Any) -> None:
    call = {"type": f"{family}_call", "call_id": "a", "name": "f", "arguments": "{}"}
    messages = [
        {"role": "user", "content": "go"},
        call,
        {"type": "computer_call_output", "call_id": "a", "output": SCREENSHOT},
    ]
    outcome = toolmend.repair(messages)
    assert outcome.messages[2]["type"] == f"{family}_call_output"
    assert outcome.messages[2]["output"] == output


def test_open_weights_keep_results_and_text_in_messages_of_their_own() -> None:
    result = {"toolResult": {"toolUseId": "a", "content": [{"text": "done"}]}}
    messages = [
        {"role": "user", "content": [{"text": "go"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}],
        },
        {"role": "user", "content": [result]},
        {"role": "user", "content": [{"text": "more"}]},
    ]
    policy = toolmend.Policy(profile="bedrock-open-weights")
    outcome = toolmend.repair(messages, policy=policy)
    assert [finding.action for finding in outcome.findings] == ["bridged"]
    assert outcome.messages[:3] == messages[:3]
    assert outcome.messages[2] is messages[2]
    assert outcome.messages[4] is messages[3]
    assert toolmend.repair(outcome.messages, policy=policy).messages is outcome.messages
