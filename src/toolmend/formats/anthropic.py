"""Anthropic Messages: ``tool_use`` blocks, answered by ``tool_result`` blocks that lead the next user turn.

Rules: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls and, for calls the
provider runs itself, https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.formats.anthropic_blocks import (
    LEGAL_ID,
    REASONING,
    SERVER_CALLS,
    is_allowed_end,
    is_blank,
    is_server_result,
)
from toolmend.formats.anthropic_scan import is_legal
from toolmend.formats.arguments import as_object, object_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, kind_of, malformed, replaced, role_in, text_of
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
    usable_id,
)

if TYPE_CHECKING:
    from toolmend.mending.plan import Plan

__all__ = ["NAME", "RULES", "begins", "calls_of", "is_legal", "read", "write"]

NAME: Final = "anthropic"
RULES: Final = Rules(
    result_role="user",
    joins_turns=True,
    ids_unique_in_request=True,
    is_legal_id=lambda call_id: LEGAL_ID(call_id) is not None,
    patch_result_turns=True,
    stubs_head=True,
    system_needs_user_turn=True,
    reasoning_needs_successor=True,
    write_arguments=as_object,
)
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
_ERROR_BLOCKS: Final = {
    name: f"{name}_tool_result"
    for name in (
        "web_search",
        "web_fetch",
        "code_execution",
        "bash_code_execution",
        "text_editor_code_execution",
        "advisor",
    )
}
"""Server tools whose error block is known from the SDK's types; every tool search shares one."""


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form.

    Raises:
        MalformedHistoryError: a message without a role, or content that is neither text nor blocks.
    """
    transcript = Transcript()
    callers = _named_callers(messages)
    signed_messages = signed(messages, _is_reasoning)
    for index, message in enumerate(messages):
        known = _ROLES.get(role_in(message, index, NAME), "unknown")
        content = get(message, "content")
        if known == "unknown":
            transcript.messages.append(Message(known, ()))
        elif content is None or isinstance(content, str):
            is_empty = not content or content.isspace()
            parts = () if is_empty else (transcript.content(0),)
            transcript.messages.append(Message(known, parts, empty=is_empty))
        elif isinstance(content, list | tuple):
            is_signed = index in signed_messages
            read_parts = _read_blocks(
                transcript, index, known, content, callers=callers, is_signed=is_signed
            )
            is_empty = all(getattr(part, "kind", None) is ContentKind.BLANK for part in read_parts)
            transcript.messages.append(
                Message(known, () if is_empty else read_parts, empty=is_empty)
            )
        else:
            raise malformed(
                NAME,
                index,
                f"has content of type {type(content).__name__}",
                "make it a text or a list of blocks",
            )
    _allow_empty_end(transcript, messages)
    return transcript


def _named_callers(messages: Sequence[object]) -> frozenset[str]:
    """Return the ids of server calls that client calls name as their caller."""
    callers: set[str] = set()
    for message in messages:
        content = get(message, "content")
        if not isinstance(content, list | tuple):
            continue
        for block in content:
            kind = block.get("type") if type(block) is dict else get(block, "type")
            if kind == "tool_use":
                caller = get(get(block, "caller"), "tool_id")
                if isinstance(caller, str):
                    callers.add(caller)
    return frozenset(callers)


def _is_reasoning(block: object) -> bool:
    kind = block.get("type") if type(block) is dict else get(block, "type")
    return isinstance(kind, str) and kind in REASONING


def _allow_empty_end(transcript: Transcript, messages: Sequence[object]) -> None:
    """Let an empty last assistant message stand, as the provider does, where nothing comes behind it."""
    parts = transcript.messages
    if not parts or parts[-1].role != "assistant" or not parts[-1].empty:
        return
    if not is_allowed_end(get(messages[-1], "content")):
        return
    for message in reversed(parts[:-1]):
        if message.empty:
            continue
        if message.role != "assistant":
            break
        if any(isinstance(part, Call) and not part.server for part in message.parts):
            return
    parts[-1] = Message("assistant", ())


def _read_blocks(
    transcript: Transcript,
    index: int,
    role: Role,
    content: Sequence[object],
    *,
    callers: frozenset[str],
    is_signed: bool,
) -> list[Part]:
    parts: list[Part] = []
    is_assistant = role == "assistant"
    for slot, block in enumerate(content):
        if type(block) is not dict and (
            block is None or isinstance(block, str | int | float | list | tuple)
        ):
            raise malformed(NAME, index, f"has no block at content[{slot}]", "make it a block")
        kind = kind_of(block)
        if kind == "tool_result" or is_server_result(kind):
            parts.append(
                transcript.add_result(
                    slot=slot,
                    id=get(block, "tool_use_id"),
                    text=partial(_text, block),
                    server=kind != "tool_result",
                )
            )
        elif is_assistant and (kind == "tool_use" or kind in SERVER_CALLS):
            is_server = kind != "tool_use"
            arguments = get(block, "input")
            name = get(block, "name")
            call_id = usable_id(get(block, "id"))
            parts.append(
                transcript.add_call(
                    slot=slot,
                    id=call_id,
                    name=name,
                    arguments=arguments,
                    state=object_state(arguments),
                    server=is_server,
                    answerable=not is_server or _has_error_block(kind, name),
                    pinned=is_signed or (is_server and call_id in callers),
                )
            )
        elif kind == "text" and is_blank(block):
            parts.append(transcript.content(slot, ContentKind.BLANK))
        else:
            is_reasoning = is_assistant and kind in REASONING
            parts.append(
                transcript.content(
                    slot, ContentKind.REASONING if is_reasoning else ContentKind.PLAIN
                )
            )
    return parts


def _text(block: object) -> str | None:
    return text_of(get(block, "content"))


def _has_error_block(kind: object, name: object) -> bool:
    return kind == "mcp_tool_use" or (
        isinstance(name, str) and (name in _ERROR_BLOCKS or _is_tool_search(name))
    )


def _is_tool_search(name: str) -> bool:
    return name.startswith("tool_search")


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of an assistant message, server-run ones too; None for any other message."""
    if get(message, "role") != "assistant":
        return None
    content = get(message, "content")
    if not isinstance(content, list | tuple):
        return []
    calls: list[CallFacts] = []
    for block in content:
        kind = block.get("type") if type(block) is dict else get(block, "type")
        if kind == "tool_use" or kind in SERVER_CALLS:
            calls.append(CallFacts(get(block, "name"), get(block, "id"), get(block, "input")))
    return calls


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    if get(message, "role") != "user":
        return False
    content = get(message, "content")
    if isinstance(content, str):
        return True
    if not isinstance(content, list | tuple):
        return False
    for block in content:
        kind = block.get("type") if type(block) is dict else get(block, "type")
        if kind == "tool_result" or is_server_result(kind):
            return False
    return True


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new message of the mended history."""
    parts = slot.parts or ()
    if parts and all(isinstance(part, Note) for part in parts):
        content: object = "\n".join(part.text for part in parts if isinstance(part, Note))
    else:
        content = [_write_block(messages, plan, part) for part in parts]
    if slot.source is None:
        return {"role": slot.role, "content": content}
    return replaced(messages[slot.source], {"content": content})


def _write_block(messages: Sequence[object], plan: Plan, part: object) -> object:
    if isinstance(part, Placeholder):
        return _write_placeholder(messages, plan, part)
    if isinstance(part, Note):
        return {"type": "text", "text": part.text}
    block = _block_at(messages, part)
    updates: dict[str, object] = {}
    if isinstance(part, Call):
        if part.number in plan.call_ids:
            updates["id"] = plan.call_ids[part.number]
        if part.number in plan.fixed_arguments:
            updates["input"] = as_object(part.arguments)
    elif isinstance(part, Result) and part.number in plan.result_ids:
        updates["tool_use_id"] = plan.result_ids[part.number]
    return replaced(block, updates) if updates else block


def _block_at(messages: Sequence[object], part: Any) -> object:
    content = get(messages[part.message], "content")
    return {"type": "text", "text": content} if isinstance(content, str) else content[part.slot]


def _write_placeholder(
    messages: Sequence[object], plan: Plan, placeholder: Placeholder
) -> dict[str, object]:
    call = placeholder.call
    call_id = plan.id_of(call)
    if not call.server:
        return {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": plan.text_of(placeholder),
            "is_error": True,
        }
    if get(_block_at(messages, call), "type") == "mcp_tool_use":
        text = plan.text_of(placeholder)
        return {
            "type": "mcp_tool_result",
            "tool_use_id": call_id,
            "is_error": True,
            "content": [{"type": "text", "text": text}],
        }
    block = _ERROR_BLOCKS.get(call.name, "tool_search_tool_result")
    return {
        "type": block,
        "tool_use_id": call_id,
        "content": {"type": f"{block}_error", "error_code": "unavailable"},
    }
