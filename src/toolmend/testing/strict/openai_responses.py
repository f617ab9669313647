"""The rules of OpenAI Responses for a history with tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolmend.testing.strict import responses_problems
from toolmend.testing.strict.arguments import is_json_object
from toolmend.testing.strict.plain import as_id, as_items, as_mapping, is_blank
from toolmend.testing.strict.responses_items import ANSWERS, REASONING, Item, read_items

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


def judge_openai_responses(
    messages: Sequence[Mapping[str, object]], allowance: Allowance
) -> list[Problem]:
    """Return what OpenAI Responses refuses in a list of items, in the order of the items.

    Outputs stand anywhere behind their call: what is in between does not matter. Items that the
    service runs itself have no output, and an approval may be open. Messages are not judged.
    """
    items = read_items(messages)
    found: list[Problem] = []
    for item in items:
        if item.is_call:
            found.extend(_judge_call(item))
        elif item.is_output:
            found.extend(_judge_output(item))
    found.extend(_judge_pairs(items, allowance))
    found.extend(_judge_reasoning(items))
    return sorted(found, key=lambda problem: problem.index)


def _judge_call(item: Item) -> Iterator[Problem]:
    call_id = item.call_id
    if call_id is None:
        yield responses_problems.missing_id(item.index, item.id_field)
    if item.kind in ("function_call", "custom_tool_call") and is_blank(item.fields.get("name")):
        yield responses_problems.nameless_call(item.index, call_id)
    if item.kind != "function_call":
        return
    item_id = item.fields.get("id")
    if item_id is not None and not (isinstance(item_id, str) and item_id.startswith("fc")):
        yield responses_problems.malformed_item_id(item.index, item_id, call_id)
    if not is_json_object(item.fields.get("arguments")):
        yield responses_problems.invalid_arguments(item.index, call_id)


def _judge_output(item: Item) -> Iterator[Problem]:
    call_id = item.call_id
    if call_id is None:
        yield responses_problems.missing_id(item.index, item.id_field)
    output = item.fields.get("output")
    if item.kind == "computer_call_output" and as_mapping(output) is None:
        yield responses_problems.invalid_result(item.index, "output", "a screenshot", call_id)
    elif item.kind == "shell_call_output" and as_items(output) is None:
        yield responses_problems.invalid_result(item.index, "output", "an array", call_id)
    elif item.kind == "apply_patch_call_output" and item.fields.get("status") not in (
        "completed",
        "failed",
    ):
        expected = "'completed' or 'failed'"
        yield responses_problems.invalid_result(item.index, "status", expected, call_id)


def _judge_pairs(items: Sequence[Item], allowance: Allowance) -> Iterator[Problem]:
    """Judge that each call has one output of its family behind it, and each output its call.

    An output belongs to the newest open call of its id. Ids are distinct in the list.
    """
    open_calls: dict[str, list[Item]] = {}
    for item in items:
        call_id = item.call_id if item.is_call or item.is_output else None
        if call_id is None:
            continue
        waiting = open_calls.get(call_id)
        if item.is_call:
            if waiting is not None:
                yield responses_problems.duplicate_id(item.index, item.kind, call_id)
            open_calls.setdefault(call_id, []).append(item)
        elif waiting:
            if ANSWERS[waiting.pop().kind] != item.kind:
                yield responses_problems.wrong_result_type(item.index, item.kind, call_id)
        elif waiting is not None:
            yield responses_problems.duplicate_result(item.index, item.kind, call_id)
        elif not allowance.orphans:
            yield responses_problems.orphan(item.index, item.kind, call_id)

    tail = _tail(items)
    for call_id, waiting in open_calls.items():
        for call in waiting:
            may_be_open = allowance.open_tail or call_id in allowance.open_ids
            if not (may_be_open and call.index in tail):
                yield responses_problems.dangling(call.index, call.kind, call_id)


def _tail(items: Sequence[Item]) -> frozenset[int]:
    """Return the places of the last run of calls, if only its own outputs stand behind it."""
    end = len(items)
    while end and items[end - 1].is_output:
        end -= 1
    start = end
    while start and items[start - 1].is_of_model and not items[start - 1].is_message:
        start -= 1
    calls = [item for item in items[start:end] if item.is_call]
    own_ids = {call.call_id for call in calls}
    if any(output.call_id not in own_ids for output in items[end:]):
        return frozenset()
    return frozenset(call.index for call in calls)


def _judge_reasoning(items: Sequence[Item]) -> Iterator[Problem]:
    """Judge that reasoning leads to an item of the model; neighbours share the item behind them."""
    leads_on = False
    for item in reversed(items):
        if item.kind != REASONING:
            leads_on = item.is_of_model
        elif not leads_on:
            item_id = as_id(item.fields.get("id")) or ""
            yield responses_problems.orphan_reasoning(item.index, item_id)
