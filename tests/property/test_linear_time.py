"""Ten times the history costs about ten times the work, counted in executed lines, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import toolmend
from tests.property.outline import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    FORMATS,
    GEMINI,
    RESPONSES,
    RESULTS_IN_USER_TURN,
    Item,
    Part,
)
from tests.property.rendering import render
from toolmend.mending.policy import Policy

SMALL, LARGE = 40, 400


def batch(format: str, ids: list[Any], answered: list[Any]) -> list[Item]:
    calls = [
        Part("call", id=key, name=f"tool_{n}", mark=f"tool_{n}", style=1)
        for n, key in enumerate(ids)
    ]
    name_of = {key: f"tool_{n}" for n, key in enumerate(ids)}
    results = [
        Part("result", id=key, name=name_of.get(key, "tool_0"), mark=f"result-{n}")
        for n, key in enumerate(answered)
    ]
    items = [Item("user", [Part("text", mark="user-1")]), Item("assistant", calls)]
    if format in RESULTS_IN_USER_TURN:
        return items + ([Item("user", results)] if results else [])
    return items + [Item("tool", [result]) for result in results]


def clean(format: str, size: int) -> list[Item]:
    return [item for n in range(size) for item in batch(format, [f"id_{n}"], [f"id_{n}"])]


def one_id_each_turn(format: str, size: int) -> list[Item]:
    return [item for _ in range(size) for item in batch(format, ["a"], ["a"])]


def one_id_each_turn_unanswered(format: str, size: int) -> list[Item]:
    return [item for _ in range(size) for item in batch(format, ["a"], [])]


def parallel_answered_late(format: str, size: int) -> list[Item]:
    ids = [f"id_{n}" for n in range(size)]
    items = batch(format, ids, ids[::-1])
    items.insert(2, Item("user", [Part("text", mark="user-2")]))
    return items


def parallel_unanswered(format: str, size: int) -> list[Item]:
    return batch(format, [f"id_{n}" for n in range(size)], [])


def parallel_without_ids(format: str, size: int) -> list[Item]:
    return batch(format, [None] * size, [None] * size)


def equal_calls_without_ids(format: str, size: int) -> list[Item]:
    items = batch(format, [""] * size, [])
    for part in items[1].parts:
        part.name = "tool_1"
    return items


def copies_of_one_call(format: str, size: int) -> list[Item]:
    items = batch(format, ["a"] * size, ["a"] * size)
    for part in items[1].parts:
        part.name = "tool_1"
    return items


def one_id_in_one_turn(format: str, size: int) -> list[Item]:
    return batch(format, ["a"] * size, ["a"] * size)


def tenth_dangling(format: str, size: int) -> list[Item]:
    items: list[Item] = []
    for n in range(size):
        items += batch(format, [f"id_{n}"], [f"id_{n}"] if n % 10 else [])
    return items


def tenth_dangling_without_a_user(format: str, size: int) -> list[Item]:
    items: list[Item] = []
    for n in range(size):
        items += batch(format, [f"id_{n}"], [f"id_{n}"] if n % 10 else [])[1:]
    return items


def orphans(format: str, size: int) -> list[Item]:
    items = batch(format, [], [f"id_{n}" for n in range(size)])
    return [item for item in items if item.parts] + batch(format, ["a"], [])


def results_before_calls(format: str, size: int) -> list[Item]:
    items: list[Item] = []
    for n in range(size):
        user, assistant, *results = batch(format, [f"id_{n}"], [f"id_{n}"])
        items += [user, *results, assistant]
    return items


def one_long_turn(format: str, size: int) -> list[Item]:
    items = [item for n in range(size) for item in batch(format, [f"id_{n}"], [])[1:]]
    return items + batch(format, [], [f"id_{n}" for n in range(size)])[2:]


def results_in_messages_of_their_own(format: str, size: int) -> list[Item]:
    ids = [f"id_{n}" for n in range(size)]
    user, assistant, *answers = batch(format, ids, ids)
    results = [part for item in answers for part in item.parts]
    return [user, assistant, *(Item(answers[0].role, [part]) for part in results)]


def calls_in_messages_of_their_own(format: str, size: int) -> list[Item]:
    ids = [f"id_{n}" for n in range(size)]
    user, assistant, *answers = batch(format, ids, ids)
    return [user, *(Item("assistant", [call]) for call in assistant.parts), *answers]


def only_assistants(format: str, size: int) -> list[Item]:
    texts = [Item("assistant", [Part("text", mark=f"assistant-{n}")]) for n in range(size)]
    return texts + batch(format, ["a"], [])[1:]


def only_users(format: str, size: int) -> list[Item]:
    texts = [Item("user", [Part("text", mark=f"user-{n}")]) for n in range(size)]
    return texts + batch(format, ["a"], [])


def reasoning_that_leads_to_nothing(format: str, size: int) -> list[Item]:
    thinking = [Item("assistant", [Part("thinking", mark=f"thinking-{n}")]) for n in range(size)]
    return only_users(format, size)[:size] + thinking + only_users(format, 1)


def texts_between_results(format: str, size: int) -> list[Item]:
    ids = [f"id_{n}" for n in range(size)]
    user, assistant, *answers = batch(format, ids, ids)
    if format not in RESULTS_IN_USER_TURN:
        return [user, assistant, *answers, user]
    for n in range(size):
        answers[0].parts.insert(2 * n + 1, Part("text", mark=f"user-{n}"))
    return [user, assistant, *answers]


def results_before_turns_that_leave(format: str, size: int) -> list[Item]:
    return batch(format, ["a"], ["a"]) + one_id_each_turn_unanswered(format, size)


SHAPES: list[Callable[[str, int], list[Item]]] = [
    clean,
    one_id_each_turn,
    one_id_each_turn_unanswered,
    parallel_answered_late,
    parallel_unanswered,
    parallel_without_ids,
    equal_calls_without_ids,
    copies_of_one_call,
    one_id_in_one_turn,
    tenth_dangling,
    tenth_dangling_without_a_user,
    orphans,
    results_before_calls,
    one_long_turn,
    results_in_messages_of_their_own,
    calls_in_messages_of_their_own,
    only_assistants,
    only_users,
    reasoning_that_leads_to_nothing,
    texts_between_results,
]
POLICIES = {
    "default": Policy(),
    "drop-with-template": Policy(dangling="drop", placeholder="{tool_name}: {cause}"),
    "window": Policy(window=7),
}


def executed_lines(action: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("format", FORMATS)
def test_work_grows_with_the_history(
    format: str, shape: Callable[[str, int], list[Item]], policy: Policy
) -> None:
    small, large = (
        executed_lines(_repair(format, render(format, shape(format, size)), policy))
        for size in (SMALL, LARGE)
    )
    assert large <= 12 * small


@pytest.mark.parametrize("format", FORMATS)
def test_work_grows_with_the_messages_that_become_one(format: str) -> None:
    policy = Policy(dangling="drop", strict_alternation=True)
    test_work_grows_with_the_history(format, results_before_turns_that_leave, policy)


def _repair(format: str, messages: list[Any], policy: Policy) -> Callable[[], object]:
    return lambda: toolmend.repair(messages, format=format, policy=policy)


class Counted(str):
    """An id that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("format", [CHAT, ANTHROPIC, RESPONSES, GEMINI, BEDROCK])
def test_ids_are_looked_up_and_not_searched_for(format: str) -> None:
    compared = []
    for size in (200, 2000):
        ids = [Counted(f"id_{n}") for n in range(size)]
        answered = [Counted(f"id_{n}") for n in range(size) if n % 3]
        messages = render(format, batch(format, ids, answered))
        Counted.compared = 0
        assert len(toolmend.repair(messages, format=format).findings) == len(ids) - len(answered)
        compared.append(Counted.compared)
    assert compared[1] <= 12 * compared[0]
