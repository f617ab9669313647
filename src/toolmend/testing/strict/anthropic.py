"""The rules of Anthropic Messages for a history with tool calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from toolmend.testing.strict import anthropic_problems
from toolmend.testing.strict.anthropic_server_calls import judge_server_calls
from toolmend.testing.strict.anthropic_turns import (
    CLIENT_CALL,
    CLIENT_RESULT,
    SERVER_CALLS,
    THINKING,
    Block,
    Turn,
    read_turns,
)
from toolmend.testing.strict.plain import as_id, as_items, as_mapping, is_blank

if TYPE_CHECKING:
    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def judge_anthropic(
    messages: Sequence[Mapping[str, object]], allowance: Allowance
) -> list[Problem]:
    """Return what Anthropic Messages refuses in a list of messages, in the order of the messages.

    Neighbouring messages of one role are joined first. The head of the list, `tool_use` in user
    messages, the content of results and unknown roles are not judged; the latter end a turn.
    """
    found: list[Problem] = []
    for index, message in enumerate(messages):
        after_assistant = index > 0 and messages[index - 1].get("role") == "assistant"
        if message.get("role") == "system" and after_assistant:
            found.append(anthropic_problems.misplaced_system(index))
        found.extend(_judge_content(index, message, is_last=index == len(messages) - 1))

    turns = read_turns(messages)
    known_ids: set[str] = set()
    for place, turn in enumerate(turns):
        following = turns[place + 1] if place + 1 < len(turns) else None
        if turn.role == "assistant":
            found.extend(_judge_calls(turn, known_ids))
            found.extend(_judge_end(turn, following))
            is_tail = place + 2 >= len(turns)
            found.extend(_judge_pairs(turn, following, allowance, is_tail=is_tail))
        elif turn.role == "system" or (
            turn.role == "user" and (place == 0 or turns[place - 1].role != "assistant")
        ):
            found.extend(_judge_strays(turn, allowance))
    found.extend(judge_server_calls(turns, allowance))
    return sorted(found, key=lambda problem: problem.index)


def _judge_content(
    index: int, message: Mapping[str, object], *, is_last: bool
) -> Iterator[Problem]:
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        return
    content = message.get("content")
    items = as_items(content)
    is_empty = is_blank(content) if items is None else not items
    if is_empty and not (is_last and role == "assistant"):
        yield anthropic_problems.empty_content(index)
    for position, item in enumerate(items or ()):
        block = as_mapping(item)
        if block is None:
            yield anthropic_problems.invalid_shape(index, position)
        elif block.get("type") == "text" and is_blank(block.get("text")):
            yield anthropic_problems.blank_text(index)


def _judge_calls(turn: Turn, known_ids: set[str]) -> Iterator[Problem]:
    """Judge the calls of an assistant turn by themselves; only client ids have a pattern."""
    for block in turn.blocks:
        if block.kind != CLIENT_CALL and block.kind not in SERVER_CALLS:
            continue
        index, position = block.index, block.position
        call_id = as_id(block.fields.get("id"))
        if call_id is None:
            yield anthropic_problems.missing_id(index, position, f"{block.kind}.id")
        elif block.kind == CLIENT_CALL:
            if not _LEGAL_ID.fullmatch(call_id):
                yield anthropic_problems.malformed_id(index, position, call_id)
            if call_id in known_ids:
                yield anthropic_problems.duplicate_id(index, position, block.kind, call_id)
            known_ids.add(call_id)
        if is_blank(block.fields.get("name")):
            yield anthropic_problems.nameless_call(index, position, block.kind, call_id)
        if not isinstance(block.fields.get("input"), Mapping):
            yield anthropic_problems.invalid_arguments(index, position, block.kind, call_id)


def _judge_end(turn: Turn, following: Turn | None) -> Iterator[Problem]:
    if following is not None and turn.blocks and turn.blocks[-1].kind in THINKING:
        block = turn.blocks[-1]
        yield anthropic_problems.trailing_thinking(block.index, block.position, block.kind)


def _judge_strays(turn: Turn, allowance: Allowance) -> Iterator[Problem]:
    for block in turn.blocks:
        if block.kind == CLIENT_RESULT:
            yield from _judge_stray(block, allowance)


def _judge_stray(block: Block, allowance: Allowance) -> Iterator[Problem]:
    call_id = as_id(block.fields.get("tool_use_id"))
    if call_id is None:
        yield anthropic_problems.missing_id(
            block.index, block.position, f"{block.kind}.tool_use_id"
        )
    elif not allowance.orphans:
        yield anthropic_problems.orphan(block.index, block.position, call_id)


def _judge_pairs(
    turn: Turn, following: Turn | None, allowance: Allowance, *, is_tail: bool
) -> Iterator[Problem]:
    """Judge the client calls of a turn and the results of the user turn right behind it."""
    yield from _judge_strays(turn, allowance)
    open_calls: Counter[str] = Counter()
    call_index: dict[str, int] = {}
    for block in turn.blocks:
        call_id = as_id(block.fields.get("id")) if block.kind == CLIENT_CALL else None
        if call_id is not None:
            open_calls[call_id] += 1
            call_index[call_id] = block.index

    is_leading = True
    is_tail = is_tail and (following is None or following.is_results_only)
    for block in following.blocks if following is not None and following.role == "user" else ():
        if block.kind != CLIENT_RESULT:
            is_leading = False
            continue
        result_id = as_id(block.fields.get("tool_use_id"))
        if result_id is None or result_id not in open_calls:
            is_tail = False
            yield from _judge_stray(block, allowance)
        elif open_calls[result_id] == 0:
            yield anthropic_problems.duplicate_result(
                block.index, block.position, block.kind, result_id
            )
        else:
            open_calls[result_id] -= 1
            if not is_leading:
                yield anthropic_problems.misplaced_result(
                    block.index, call_index[result_id], result_id
                )

    by_message: dict[int, list[str]] = {}
    for call_id in allowance.forbidden(open_calls, is_tail=is_tail):
        by_message.setdefault(call_index[call_id], []).append(call_id)
    for index, call_ids in by_message.items():
        yield anthropic_problems.dangling(index, tuple(call_ids))
