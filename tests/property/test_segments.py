"""Of a long history only parts go the full way; what comes of it is what the full way makes of all."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import toolmend
from benchmarks.repair_speed import (
    anthropic,
    anthropic_loop,
    bedrock,
    chat,
    chat_loop,
    gemini,
    gemini_by_name,
    responses,
)
from tests.property.outline import FORMATS
from tests.property.reading import events
from tests.property.strategies import patch_even, seeded
from toolmend import Policy
from toolmend.formats import FORMATS as WIRES
from toolmend.mend import _planned, repair
from toolmend.mending.plan import make_plan
from toolmend.segments import MIN_LENGTH, excerpt

POLICIES = (
    Policy(),
    Policy(trailing="leave"),
    Policy(orphans="keep"),
    Policy(dangling="drop"),
    Policy(dangling=patch_even, trailing="leave"),
    Policy(language="zh", in_flight=lambda call_id: call_id.endswith("3")),
)
MAKERS = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}


def told(outcome: toolmend.Repair) -> Any:
    findings = Counter(
        (f.kind, f.action, f.index, f.call_id, f.tool_name, f.cause) for f in outcome.findings
    )
    edits = [(e.operation, e.index, e.source, e.synthetic) for e in outcome.edits]
    return outcome.changed, findings, dict(outcome.counts), edits, list(outcome.messages)


def agrees(messages: list[Any], format: str, policy: Policy) -> bool:
    """Compare both ways, and tell whether only a part went the full one."""
    wire = WIRES[format]
    if wire.is_legal(messages, policy):
        return False
    outcome = repair(messages, format, policy)
    whole = _planned(messages, wire, make_plan(wire.read(messages), wire.RULES, policy))
    assert told(outcome) == told(whole)
    return excerpt(messages, wire, policy) is not None


def one_behind_the_other(dice: random.Random, format: str, *, without_ids: bool) -> list[Any]:
    """Join damaged histories to a long one; ids, names and texts repeat all over the place."""
    messages: list[Any] = []
    length = dice.choice((MIN_LENGTH, 80, 140))
    broken = dice.choice((0.05, 0.2, 0.5))
    while len(messages) < length:
        part = seeded(dice.randrange(1_000_000), format, with_policy=False).messages
        pairing = [event for event in events(format, part) if event.kind in ("call", "result")]
        if without_ids and any(event.id is not None for event in pairing):
            continue
        if dice.random() > broken:
            part = toolmend.repair(part, format).messages
        messages += part
    return messages


@pytest.mark.parametrize(
    ("format", "without_ids"), [*((name, False) for name in FORMATS), ("gemini", True)]
)
def test_damaged_histories_one_behind_the_other(format: str, without_ids: bool) -> None:
    divided = 0
    for seed in range(60):
        dice = random.Random(seed)
        messages = one_behind_the_other(dice, format, without_ids=without_ids)
        divided += agrees(messages, format, dice.choice(POLICIES))
    assert divided or format == "gemini", "some calls with ids and some without go the full way"
    assert divided > 30 or not without_ids


@pytest.mark.parametrize(
    ("format", "make"),
    [
        *MAKERS.items(),
        ("openai-chat", chat_loop),
        ("anthropic", anthropic_loop),
        ("gemini", gemini_by_name),
    ],
)
def test_long_histories_with_some_damage(format: str, make: Any) -> None:
    divided = 0
    for seed in range(60):
        dice = random.Random(seed)
        turns = dice.choice((25, 40, 60))
        skipped = set(dice.sample(range(turns), dice.randrange(4)))
        messages = make(turns, skipped)
        for _ in range(dice.randrange(4)):
            at, to = dice.randrange(len(messages)), dice.randrange(len(messages))
            damage = dice.choice(("drop", "copy", "move"))
            message = messages[at] if damage == "copy" else messages.pop(at)
            if damage != "drop":
                messages.insert(to, message)
        divided += agrees(messages, format, dice.choice(POLICIES))
    assert divided > 30


@pytest.mark.parametrize(
    "policy",
    [
        Policy(window=100),
        Policy(server_state=True),
        Policy(profile="mistral"),
        Policy(max_id_len=20),
        Policy(strict_alternation=True),
    ],
    ids=["window", "server state", "profile", "short ids", "strict"],
)
def test_policies_that_reach_further_go_the_full_way(policy: Policy) -> None:
    assert excerpt(chat(40, {3}), WIRES["openai-chat"], policy) is None


def test_most_of_a_long_history_stays_out() -> None:
    for name, make in MAKERS.items():
        messages = make(250, set(range(0, 250, 10)))
        found = excerpt(messages, WIRES[name], Policy())
        assert found is not None
        assert len(found.messages) < len(messages) / 3, name


def test_a_history_that_begins_within_a_turn_keeps_what_belongs_together() -> None:
    """Only the last call is open; the first has its result."""
    messages: list[Any] = [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}],
        },
        *({"role": "user", "content": f"text {n}"} for n in range(MIN_LENGTH)),
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "z", "name": "f", "input": {}}],
        },
    ]
    outcome = repair(messages, "anthropic")

    assert [finding.call_id for finding in outcome.findings] == ["z"]
    assert agrees(messages, "anthropic", Policy())


def test_an_error_names_the_place_in_the_whole_history() -> None:
    messages = [*chat(40, {3}), {"role": "assistant", "content": None, "tool_calls": "x"}]

    with pytest.raises(toolmend.MalformedHistoryError, match=rf"messages\[{len(messages) - 1}\]"):
        toolmend.repair(messages)


def test_an_id_that_differs_in_blanks_is_looked_for_where_it_was_left_out() -> None:
    messages = chat(40, {3})
    messages.insert(-1, {"role": "tool", "tool_call_id": " call_20_0", "content": "late"})

    assert agrees(messages, "openai-chat", Policy())


def test_a_new_id_meets_none_that_is_left_out() -> None:
    def use(call_id: str) -> list[Any]:
        block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": "1"}
        return [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [answer]},
            {"role": "assistant", "content": "ok"},
        ]

    [new] = (block["id"] for block in repair(use("a b"), "anthropic").messages[1]["content"])
    messages = [*anthropic(10, set()), *use(new), *anthropic(10, set())[:-1], *use("a b")]
    # The ids of the second ten are those of the first ten: other ones, so that all is left out.
    for number, message in enumerate(messages[44:-4]):
        for block in message["content"]:
            for key in ("id", "tool_use_id"):
                if key in block:
                    block[key] = f"second_{number // 4}"
    found = excerpt(messages, WIRES["anthropic"], Policy())

    assert found is not None
    assert new in found.other_ids
    assert agrees(messages, "anthropic", Policy())
    outcome = repair(messages, "anthropic")
    assert outcome.messages[-3]["content"][0]["id"] not in {new, "a b"}
