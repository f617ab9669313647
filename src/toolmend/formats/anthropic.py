"""Anthropic Messages: ``tool_use`` blocks, answered by ``tool_result`` blocks that lead the next user turn.

Rules: https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls and, for calls the
provider runs itself, https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.formats.arguments import as_object, object_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, kind_of, malformed, replaced, text_of
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
    from toolmend.mending.policy import Policy

NAME: Final = "anthropic"
_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
RULES: Final = Rules(
    result_role="user",
    joins_turns=True,
    ids_unique_in_request=True,
    is_legal_id=lambda call_id: _LEGAL_ID(call_id) is not None,
    patch_result_turns=True,
    stubs_head=True,
    system_needs_user_turn=True,
    reasoning_needs_successor=True,
)
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
SERVER_CALLS: Final = frozenset(("server_tool_use", "mcp_tool_use"))
REASONING: Final = frozenset(("thinking", "redacted_thinking"))
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


def is_server_result(kind: object) -> bool:
    """Tell whether a block answers a call that the provider ran."""
    return isinstance(kind, str) and kind.endswith("_tool_result") and kind != "tool_result"


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done.

    Open calls at the end and open server calls are a no: only the full path decides to leave them.
    """
    try:
        return _Scan().run(messages)
    except (KeyError, TypeError, AttributeError):
        return False


class _Scan:
    """One pass over a history that stops at the first doubt."""

    __slots__ = ("ends_in_reasoning", "pending", "server", "used")

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.pending: set[str] = set()
        self.server: set[str] = set()
        self.ends_in_reasoning = False

    def run(self, messages: Sequence[object]) -> bool:
        previous = None
        takes_results = False
        last = len(messages) - 1
        for index, message in enumerate(messages):
            role = get(message, "role")
            content = get(message, "content")
            if role == "assistant":
                if previous != "assistant":
                    if self.pending:
                        return False
                    self.server.clear()
                if not (self._assistant(content) or (index == last and _is_allowed_end(content))):
                    return False
                if index == last and not content and self.pending:
                    return False
            elif role == "user":
                if previous == "assistant":
                    if self.ends_in_reasoning:
                        return False
                    takes_results = True
                elif previous != "user":
                    takes_results = False
                verdict = self._user(content, takes_results=takes_results)
                if verdict is None:
                    return False
                takes_results = verdict
            elif (
                role != "system"
                or previous == "assistant"
                or not _has_content(content)
                or self.pending
            ):
                return False
            previous = role
        return not self.pending

    def _assistant(self, content: object) -> bool:
        if isinstance(content, str):
            self.ends_in_reasoning = False
            return bool(content) and not content.isspace()
        if not isinstance(content, list | tuple) or not content:
            return False
        open_server: set[str] = set()
        kind = None
        for block in content:
            kind = block["type"] if type(block) is dict else get(block, "type")
            if kind == "text":
                if _is_blank(block):
                    return False
            elif kind == "tool_use":
                call_id = get(block, "id")
                if (
                    type(call_id) is not str
                    or _LEGAL_ID(call_id) is None
                    or call_id in self.used
                    or not _is_named_call(block)
                ):
                    return False
                self.used.add(call_id)
                self.pending.add(call_id)
            elif kind in SERVER_CALLS:
                call_id = get(block, "id")
                if type(call_id) is not str or not call_id.strip() or call_id in self.server:
                    return False
                if not _is_named_call(block):
                    return False
                self.server.add(call_id)
                open_server.add(call_id)
            elif kind == "tool_result":
                return False
            elif is_server_result(kind):
                open_server.remove(get(block, "tool_use_id"))
        self.ends_in_reasoning = kind in REASONING
        return not open_server

    def _user(self, content: object, *, takes_results: bool) -> bool | None:
        """Return whether further results may follow in this turn; None where something is wrong."""
        if isinstance(content, str):
            if self.pending or not content or content.isspace():
                return None
            return False
        if not isinstance(content, list | tuple) or not content:
            return None
        for block in content:
            kind = block["type"] if type(block) is dict else get(block, "type")
            if kind == "tool_result":
                if not takes_results:
                    return None
                self.pending.remove(get(block, "tool_use_id"))
            elif self.pending or is_server_result(kind):
                return None
            else:
                takes_results = False
                if kind == "text" and _is_blank(block):
                    return None
        return takes_results


def _is_named_call(block: object) -> bool:
    name = get(block, "name")
    return (
        isinstance(name, str)
        and bool(name)
        and not name.isspace()
        and isinstance(get(block, "input"), Mapping)
    )


def _is_blank(block: object) -> bool:
    text = get(block, "text")
    return text is None or (isinstance(text, str) and (not text or text.isspace()))


def _has_content(content: object) -> bool:
    if isinstance(content, str):
        return bool(content) and not content.isspace()
    if not isinstance(content, list | tuple) or not content:
        return False
    return not any(
        get(block, "type") in ("tool_result", "tool_use")
        or is_server_result(get(block, "type"))
        or (get(block, "type") == "text" and _is_blank(block))
        for block in content
    )


def _is_allowed_end(content: object) -> bool:
    """Tell whether the content is one that only the last assistant message may have."""
    if isinstance(content, str):
        return not content or content.isspace()
    return isinstance(content, list | tuple) and not content


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form.

    Raises:
        MalformedHistoryError: a message without a role, or content that is neither text nor blocks.
    """
    transcript = Transcript()
    callers = _named_callers(messages)
    for index, message in enumerate(messages):
        role = get(message, "role")
        if not isinstance(role, str):
            raise malformed(
                NAME,
                index,
                f"({type(message).__name__}) has no role",
                "give it a role or remove it",
            )
        known = _ROLES.get(role, "unknown")
        content = get(message, "content")
        if known == "unknown":
            transcript.messages.append(Message(known, ()))
        elif content is None or isinstance(content, str):
            is_empty = not content or content.isspace()
            parts = () if is_empty else (transcript.content(0),)
            transcript.messages.append(Message(known, parts, empty=is_empty))
        elif isinstance(content, list | tuple):
            read_parts = _read_blocks(transcript, index, known, content, callers)
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
            if get(block, "type") == "tool_use":
                caller = get(get(block, "caller"), "tool_id")
                if isinstance(caller, str):
                    callers.add(caller)
    return frozenset(callers)


def _allow_empty_end(transcript: Transcript, messages: Sequence[object]) -> None:
    """Let an empty last assistant message stand, as the provider does, where nothing comes behind it."""
    parts = transcript.messages
    if not parts or parts[-1].role != "assistant" or not parts[-1].empty:
        return
    if not _is_allowed_end(get(messages[-1], "content")):
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
    callers: frozenset[str],
) -> list[Part]:
    parts: list[Part] = []
    is_assistant = role == "assistant"
    is_signed = is_assistant and any(kind_of(block) in REASONING for block in content)
    for slot, block in enumerate(content):
        if block is None or isinstance(block, str | int | float | list | tuple):
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
        elif kind == "text" and _is_blank(block):
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
    return [
        CallFacts(get(block, "name"), get(block, "id"), get(block, "input"))
        for block in content
        if get(block, "type") == "tool_use" or get(block, "type") in SERVER_CALLS
    ]


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
