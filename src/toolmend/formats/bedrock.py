"""Bedrock Converse: ``toolUse`` blocks, answered by ``toolResult`` blocks in the next user message; roles alternate.

Rules: https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use.html and
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultBlock.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.formats.arguments import as_object, object_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, malformed, replaced, role_in, text_of
from toolmend.formats.signatures import signed
from toolmend.mending.layout import Note, Placeholder, Slot
from toolmend.mending.transcript import (
    Call,
    ContentKind,
    Message,
    Part,
    Result,
    Role,
    Rules,
    Transcript,
)

if TYPE_CHECKING:
    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

NAME: Final = "bedrock"
LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
RULES: Final = Rules(
    result_role="user",
    joins_turns=True,
    ids_unique_in_request=False,
    is_legal_id=lambda call_id: LEGAL_ID(call_id) is not None,
    patch_result_turns=True,
    stubs_head=True,
    system_needs_user_turn=False,
    reasoning_needs_successor=False,
    results_lead=False,
    alternates=True,
    head="no_assistant",
    write_arguments=as_object,
)
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_CALL: Final = "toolUse"
_RESULT: Final = "toolResult"
_REASONING: Final = "reasoningContent"
_MARK: Final = "cachePoint"
_SERVER_CALL: Final = "server_tool_use"
BLOCKS: Final = frozenset(
    (_CALL, _RESULT, _REASONING, "text", "image", "document", "video", "audio", _MARK)
) | {"guardContent", "citationsContent", "searchResult"}
"""Keys of blocks, which no other format writes without a type."""


def is_legal(messages: Sequence[object], policy: Policy) -> bool:
    """Tell in one pass whether nothing has to be done; open calls at the end are a no."""
    alone = policy.profile == "bedrock-open-weights"
    pending: set[str] = set()
    expected = "user"
    try:
        for message in messages:
            if type(message) is dict:
                role = message["role"]
                content = message["content"]
            else:
                role = get(message, "role")
                content = get(message, "content")
            if role != expected or not content or type(content) not in (list, tuple):
                return False
            if role == "user":
                if not _answers(content, pending, alone):
                    return False
                expected = "assistant"
            else:
                if not _calls(content, pending):
                    return False
                expected = "user"
    except (KeyError, TypeError, AttributeError):
        return False
    return not pending


def _answers(content: Sequence[Any], pending: set[str], alone: bool) -> bool:
    """Take the results of a user message off the open calls; a yes leaves none open."""
    has_results = has_others = False
    for block in content:
        if type(block) is dict:
            result = block.get(_RESULT)
            if result is None:
                text = block.get("text")
                if (
                    type(text) is str
                    and text
                    and not text.isspace()
                    and (len(block) == 1 or block.get(_CALL) is None)
                ):
                    has_others = True
                    continue
        else:
            result = get(block, _RESULT)
        if result is not None:
            pending.remove(get(result, "toolUseId"))
            has_results = True
        elif _is_blank(block) or get(block, _CALL) is not None:
            return False
        else:
            has_others = has_others or get(block, _MARK) is None
    return not pending and not (alone and has_results and has_others)


def _calls(content: Sequence[Any], pending: set[str]) -> bool:
    """Add the calls of an assistant message to the open ones; a no is a doubt."""
    for block in content:
        if type(block) is dict:
            call = block.get(_CALL)
            if call is None and len(block) == 1:
                text = block.get("text")
                if type(text) is str and text and not text.isspace():
                    continue
        else:
            call = get(block, _CALL)
        if call is not None:
            if get(call, "type") == _SERVER_CALL:
                continue
            call_id = get(call, "toolUseId")
            name = get(call, "name")
            arguments = get(call, "input")
            if (
                type(call_id) is not str
                or call_id in pending
                or LEGAL_ID(call_id) is None
                or type(name) is not str
                or not name
                or name.isspace()
                or not (type(arguments) is dict or isinstance(arguments, Mapping))
            ):
                return False
            pending.add(call_id)
        elif _is_blank(block) or _is_client_result(block):
            return False
    return True


def _is_client_result(block: object) -> bool:
    """Tell whether a block answers a client's call; what answers the provider's own has a type."""
    result = get(block, _RESULT)
    return result is not None and get(result, "type") is None


def _is_blank(block: object) -> bool:
    text = get(block, "text")
    return isinstance(text, str) and (not text or text.isspace())


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form.

    Raises:
        MalformedHistoryError: a message without a role, or content that is no list of blocks.
    """
    transcript = Transcript()
    signed_messages = signed(messages, _is_reasoning)
    for index, message in enumerate(messages):
        known = _ROLES.get(role_in(message, index, NAME), "unknown")
        content = get(message, "content")
        if known == "unknown":
            transcript.messages.append(Message(known, ()))
        elif content is None:
            transcript.messages.append(Message(known, (), empty=True))
        elif isinstance(content, list | tuple):
            parts = [
                _read_block(
                    transcript, index, slot, block, role=known, is_signed=index in signed_messages
                )
                for slot, block in enumerate(content)
            ]
            is_empty = all(getattr(part, "kind", None) is ContentKind.BLANK for part in parts)
            transcript.messages.append(Message(known, () if is_empty else parts, empty=is_empty))
        else:
            raise malformed(
                NAME,
                index,
                f"has content of type {type(content).__name__}",
                "make it a list of blocks",
            )
    return transcript


def _is_reasoning(block: object) -> bool:
    return get(block, _REASONING) is not None


def _read_block(
    transcript: Transcript, index: int, slot: int, block: object, *, role: Role, is_signed: bool
) -> Part:
    if block is None or isinstance(block, str | int | float | list | tuple):
        raise malformed(NAME, index, f"has no block at content[{slot}]", "make it a block")
    call = get(block, _CALL)
    if call is not None and role == "assistant" and get(call, "type") != _SERVER_CALL:
        arguments = get(call, "input")
        return transcript.add_call(
            slot=slot,
            id=get(call, "toolUseId"),
            name=get(call, "name"),
            arguments=arguments,
            state=object_state(arguments),
            pinned=is_signed,
        )
    result = get(block, _RESULT)
    if result is not None and (role == "user" or _is_client_result(block)):
        return transcript.add_result(
            slot=slot, id=get(result, "toolUseId"), text=partial(_text, result)
        )
    if _is_blank(block):
        return transcript.content(slot, ContentKind.BLANK)
    if get(block, _MARK) is not None:
        return transcript.content(slot, ContentKind.MARK)
    is_reasoning = role == "assistant" and get(block, _REASONING) is not None
    return transcript.content(slot, ContentKind.REASONING if is_reasoning else ContentKind.PLAIN)


def _text(result: object) -> str | None:
    return text_of(get(result, "content"))


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of an assistant message, None for any other message."""
    if get(message, "role") != "assistant":
        return None
    content = get(message, "content")
    if not isinstance(content, list | tuple):
        return []
    calls = [get(block, _CALL) for block in content]
    return [
        CallFacts(get(call, "name"), get(call, "toolUseId"), get(call, "input"))
        for call in calls
        if call is not None
    ]


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    content = get(message, "content")
    return (
        get(message, "role") == "user"
        and isinstance(content, list | tuple)
        and not any(get(block, _RESULT) is not None for block in content)
    )


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new message of the mended history."""
    content = [_write_block(messages, plan, part) for part in slot.parts or ()]
    if slot.source is None:
        return {"role": slot.role, "content": content}
    return replaced(messages[slot.source], {"content": content})


def _write_block(messages: Sequence[object], plan: Plan, part: object) -> object:
    if isinstance(part, Placeholder):
        answer = {
            "toolUseId": plan.id_of(part.call),
            "content": [{"text": plan.text_of(part)}],
        }
        return {_RESULT: answer}
    if isinstance(part, Note):
        return {"text": part.text}
    block = _block_at(messages, part)
    if isinstance(part, Call):
        updates: dict[str, object] = {}
        if part.number in plan.call_ids:
            updates["toolUseId"] = plan.call_ids[part.number]
        if part.number in plan.fixed_arguments:
            updates["input"] = as_object(part.arguments)
        return replaced(block, {_CALL: replaced(get(block, _CALL), updates)}) if updates else block
    if isinstance(part, Result) and part.number in plan.result_ids:
        answered = replaced(get(block, _RESULT), {"toolUseId": plan.result_ids[part.number]})
        return replaced(block, {_RESULT: answered})
    return block


def _block_at(messages: Sequence[object], part: Any) -> object:
    block: object = get(messages[part.message], "content")[part.slot]
    return block
