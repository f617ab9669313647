"""The rules of Bedrock Converse for a history with tool calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolmend.testing.strict import bedrock_problems
from toolmend.testing.strict.bedrock_blocks import ROLES, Block, Message, id_of, read_messages
from toolmend.testing.strict.plain import as_items, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem

# The newest pages and botocore 1.44 allow `.` and `:` in ids too; older pages do not (page AWS-TR).
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def judge_bedrock(messages: Sequence[Mapping[str, object]], allowance: Allowance) -> list[Problem]:
    """Return what Bedrock Converse refuses in a list of messages, in the order of the messages.

    Messages are not joined: roles alternate. Where results stand beside text in their message does
    not matter. What the service runs itself and messages of unknown roles are not judged.
    """
    history = read_messages(messages)
    found: list[Problem] = []
    for place, message in enumerate(history):
        if message.role not in ROLES:
            continue
        previous = history[place - 1] if place else None
        following = history[place + 1] if place + 1 < len(history) else None
        found.extend(_judge_role(message, previous))
        found.extend(_judge_content(message))
        if message.calls:
            is_end = place + 2 >= len(history)
            found.extend(_judge_pairs(message, following, allowance, is_end=is_end))
        if previous is None or not previous.calls:
            found.extend(_judge_strays(message, allowance))
    return sorted(found, key=lambda problem: problem.index)


def _judge_role(message: Message, previous: Message | None) -> Iterator[Problem]:
    if previous is None and message.role != "user":
        yield bedrock_problems.bad_first_turn(message.index)
    if previous is not None and previous.role == message.role:
        yield bedrock_problems.role_order(message.index)


def _judge_content(message: Message) -> Iterator[Problem]:
    index = message.index
    if message.blocks is None and message.content is not None:
        yield bedrock_problems.invalid_shape(index, "content")
    elif not message.blocks:
        yield bedrock_problems.empty_content(index)
    server_ids = {id_of(block.call) for block in message.blocks or () if block.is_server_call}
    for block in message.blocks or ():
        if block.fields is None:
            yield bedrock_problems.invalid_shape(index, f"content.{block.position}")
            continue
        text = block.fields.get("text")
        if text is not None and is_blank(text):
            yield bedrock_problems.blank_text(index, block.position)
        yield from _judge_call(message, block)
        yield from _judge_result(message, block, server_ids)


def _judge_call(message: Message, block: Block) -> Iterator[Problem]:
    index, position, call = message.index, block.position, block.call
    if call is None:
        if block.fields is not None and block.fields.get("toolUse") is not None:
            yield bedrock_problems.invalid_shape(index, f"content.{position}.toolUse")
        return
    call_id, name = id_of(call), call.get("name")
    if message.role != "assistant":
        yield bedrock_problems.misplaced_call(index, position, call_id)
    if block.is_server_call:
        return
    if call_id is None:
        yield bedrock_problems.missing_id(index, position, "toolUse")
    elif not _LEGAL_ID.fullmatch(call_id):
        yield bedrock_problems.malformed_id(index, position, call_id)
    if is_blank(name):
        yield bedrock_problems.nameless_call(index, position, call_id)
    elif not _LEGAL_NAME.fullmatch(str(name)):
        yield bedrock_problems.malformed_name(index, position, call_id)
    if not isinstance(call.get("input"), Mapping):
        yield bedrock_problems.invalid_arguments(index, position, call_id)


def _judge_result(message: Message, block: Block, server_ids: set[str | None]) -> Iterator[Problem]:
    index, position, result = message.index, block.position, block.result
    if result is None:
        if block.fields is not None and block.fields.get("toolResult") is not None:
            yield bedrock_problems.invalid_shape(index, f"content.{position}.toolResult")
        return
    call_id = id_of(result)
    if message.role != "user" and (call_id is None or call_id not in server_ids):
        yield bedrock_problems.misplaced_result(index, position, call_id)
    if call_id is None:
        yield bedrock_problems.missing_id(index, position, "toolResult")
    if as_items(result.get("content")) is None:
        yield bedrock_problems.invalid_result(index, position, call_id)


def _judge_pairs(
    message: Message, following: Message | None, allowance: Allowance, *, is_end: bool
) -> Iterator[Problem]:
    """Judge the calls of a message and the results of the message right behind it."""
    open_calls: Counter[str] = Counter()
    for block in message.calls:
        call_id = id_of(block.call)
        if call_id is None:
            continue
        if call_id in open_calls:
            yield bedrock_problems.duplicate_id(message.index, call_id)
        open_calls[call_id] += 1

    behind: list[Problem] = []
    is_tail = is_end and (following is None or _holds_results_alone(following))
    for block in () if following is None else following.results:
        assert following is not None
        call_id = id_of(block.result)
        if call_id is None or call_id not in open_calls:
            is_tail = False
            if call_id is not None and not allowance.orphans:
                behind.append(bedrock_problems.orphan(following.index, call_id))
        elif open_calls[call_id] == 0:
            behind.append(bedrock_problems.duplicate_result(following.index, call_id))
        else:
            open_calls[call_id] -= 1
    if dangling := allowance.forbidden(open_calls, is_tail=is_tail):
        yield bedrock_problems.dangling(message.index, dangling)
    yield from behind


def _holds_results_alone(message: Message) -> bool:
    """Tell whether a message says nothing beside results; a cache point says nothing."""
    said = [block for block in message.blocks or () if "cachePoint" not in (block.fields or {})]
    return bool(message.blocks) and len(message.results) == len(said)


def _judge_strays(message: Message, allowance: Allowance) -> Iterator[Problem]:
    """Judge the results of a message that stands behind no call."""
    for block in message.results:
        call_id = id_of(block.result)
        if call_id is not None and not allowance.orphans:
            yield bedrock_problems.orphan(message.index, call_id)
