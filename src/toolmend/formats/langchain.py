"""LangChain messages: the pairing rules of OpenAI Chat over objects that show a call in several views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolmend.errors import UnrecognizedHistoryError
from toolmend.formats import openai_chat
from toolmend.formats.arguments import text_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, kind_of, malformed, replaced, text_of
from toolmend.formats.langchain_views import CALL_BLOCKS, shown_calls, write_calls
from toolmend.mending.layout import Note, Placeholder, Slot
from toolmend.mending.transcript import (
    Call,
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

NAME: Final = "langchain"
RULES: Final[Rules] = openai_chat.RULES
_ROLES: Final[dict[str, Role]] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "other",
    "chat": "other",
    "remove": "other",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "other",
    "ChatMessageChunk": "other",
}
_SIGNED_BLOCKS: Final = frozenset(("thinking", "redacted_thinking", "reasoning_content"))
_CONTENT_SLOT: Final = -2


def is_message(item: object) -> bool:
    """Tell whether an item is a message object of langchain_core, without importing it."""
    return any(
        base.__module__.startswith("langchain_core.messages") for base in type(item).__mro__
    ) and isinstance(getattr(item, "type", None), str)


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done; open calls at the end are a no."""
    pending: set[str] = set()
    try:
        for message in messages:
            kind = getattr(message, "type", None)
            role = _ROLES.get(kind) if isinstance(kind, str) else None
            if role is None or isinstance(message, Mapping):
                return False
            if role == "tool":
                pending.remove(message.tool_call_id)  # type: ignore[attr-defined]  # by its type
            elif pending:
                return False
            elif role == "assistant":
                for call in shown_calls(message):
                    if usable_id(call.id) is None or call.id in pending:
                        return False
                    if not isinstance(call.name, str) or not call.name.strip():
                        return False
                    pending.add(call.id)  # type: ignore[arg-type]  # usable ids are texts
    except (KeyError, TypeError, AttributeError):
        return False
    return not pending


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form; dicts and pairs of role and text may stand between objects.

    Raises:
        MalformedHistoryError: an item that is no message.
    """
    transcript = Transcript()
    for index, message in enumerate(messages):
        if isinstance(message, Mapping):
            transcript.messages.append(_read_dict(transcript, index, message))
        elif isinstance(message, str):
            transcript.messages.append(Message("user", ()))
        elif isinstance(message, tuple | list) and message and isinstance(message[0], str):
            transcript.messages.append(Message(_ROLES.get(message[0], "unknown"), ()))
        elif is_message(message):
            transcript.messages.append(_read_object(transcript, message))
        else:
            raise malformed(
                NAME, index, f"({type(message).__name__}) is no message", "convert or remove it"
            )
    return transcript


def _dict_role(message: Mapping[str, Any]) -> Role | None:
    """Return the role of a dict, which names it as ``role`` or as ``type``; None if it names none."""
    named = message.get("role", message.get("type"))
    return _ROLES.get(named, "unknown") if isinstance(named, str) else None


def _read_dict(transcript: Transcript, index: int, message: Mapping[str, Any]) -> Message:
    """Read a dict, which chat models turn into an object; its calls may be spelt either way."""
    role = _dict_role(message)
    if role is None:
        raise malformed(NAME, index, "(dict) has no role", "give it a role or remove it")
    if role == "tool":
        result = transcript.add_result(
            slot=0, id=message.get("tool_call_id"), text=partial(text_of, message.get("content"))
        )
        return Message("tool", (result,))
    if role != "assistant":
        return Message(role, (), is_blank=_is_blank(role, message.get("content")))
    entries = message.get("tool_calls")
    if entries is not None and not isinstance(entries, list | tuple):
        what = f"has tool_calls of type {type(entries).__name__}"
        raise malformed(NAME, index, what, "make it a list")
    parts: list[Part] = []
    if message.get("content"):
        parts.append(transcript.content(_CONTENT_SLOT))
    for slot, entry in enumerate(entries or ()):
        if entry is None or isinstance(entry, str | int | float | list | tuple):
            raise malformed(
                NAME, index, f"has no tool call at tool_calls[{slot}]", "remove that entry"
            )
        call = _dict_call(entry)
        parts.append(
            transcript.add_call(
                slot=slot,
                id=call.id,
                name=call.name,
                arguments=call.arguments,
                state="fine" if get(entry, "function") is None else text_state(call.arguments),
                is_fixable=False,
            )
        )
    return Message("assistant", parts, is_blank=not parts)


def _is_blank(role: Role, content: object) -> bool:
    return role in ("system", "user") and not content


def _dict_call(entry: object) -> CallFacts:
    function = get(entry, "function")
    if function is not None:
        return CallFacts(get(function, "name"), get(entry, "id"), get(function, "arguments"))
    custom = get(entry, "custom")
    if custom is not None:
        return CallFacts(get(custom, "name"), get(entry, "id"), get(custom, "input"))
    return CallFacts(get(entry, "name"), get(entry, "id"), get(entry, "args"))


def _write_dict(message: Mapping[str, Any], plan: Plan, kept: list[Call]) -> object:
    entries = message["tool_calls"]
    calls = [
        replaced(entries[call.slot], {"id": plan.call_ids[call.number]})
        if call.number in plan.call_ids
        else entries[call.slot]
        for call in kept
    ]
    return replaced(message, {"tool_calls": calls} if calls else {}, drop=("tool_calls",))


def _read_object(transcript: Transcript, message: Any) -> Message:
    role = _ROLES.get(message.type, "unknown")
    if role == "tool":
        result = transcript.add_result(
            slot=0, id=message.tool_call_id, text=partial(text_of, message.content)
        )
        return Message("tool", (result,))
    if role != "assistant":
        return Message(role, (), is_blank=_is_blank(role, message.content))
    try:
        shown = shown_calls(message)
    except TypeError as error:
        raise malformed(NAME, len(transcript.messages), str(error), "make it a list") from error
    parts: list[Part] = []
    if _has_other_content(message.content):
        parts.append(transcript.content(_CONTENT_SLOT))
    blocks = message.content if isinstance(message.content, list) else ()
    is_signed = any(kind_of(block) in _SIGNED_BLOCKS for block in blocks)
    parts.extend(
        transcript.add_call(
            slot=slot,
            id=call.id,
            name=call.name,
            arguments=call.arguments,
            state=call.state,
            # The entry stays as it is: integrations know what to do with an invalid call.
            is_fixable=False,
            pinned=is_signed,
        )
        for slot, call in enumerate(shown)
    )
    return Message("assistant", parts, is_blank=not parts)


def _has_other_content(content: object) -> bool:
    if not isinstance(content, list):
        return bool(content)
    return any(kind_of(block) not in CALL_BLOCKS for block in content)


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of an assistant message, None for any other message."""
    if isinstance(message, Mapping):
        if _dict_role(message) != "assistant":
            return None
        return [_dict_call(entry) for entry in message.get("tool_calls") or ()]
    if not is_message(message) or _ROLES.get(message.type) != "assistant":  # type: ignore[attr-defined]  # messages have a type
        return None
    return [CallFacts(call.name, call.id, call.arguments) for call in shown_calls(message)]


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    if isinstance(message, Mapping):
        return _dict_role(message) == "user"
    return is_message(message) and _ROLES.get(message.type) == "user"  # type: ignore[attr-defined]  # messages have a type


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new message of the mended history."""
    parts = slot.parts or ()
    first = parts[0] if parts else None
    if isinstance(first, Placeholder):
        return made_message(
            "ToolMessage",
            content=plan.text_of(first),
            tool_call_id=plan.id_of(first.call),
            name=first.call.name,
            status="error",
        )
    if isinstance(first, Note):
        return made_message("AIMessage", content=first.text)  # the only role that is bridged here
    assert slot.source is not None
    message: Any = messages[slot.source]
    if isinstance(first, Result):
        new_id = plan.result_ids.get(first.number)
        return message if new_id is None else replaced(message, {"tool_call_id": new_id})
    kept = [part for part in parts if isinstance(part, Call)]
    if isinstance(message, Mapping):
        return _write_dict(message, plan, kept)
    return write_calls(message, plan, kept)


def made_message(kind: str, **fields: object) -> object:
    """Return a new message of a kind; a history of such objects has imported langchain_core already.

    Raises:
        UnrecognizedHistoryError: LangChain is not there.
    """
    try:
        messages = import_module("langchain_core.messages")
    except ImportError as error:
        raise UnrecognizedHistoryError(
            'format="langchain" needs LangChain: pip install langchain-core'
        ) from error
    made: object = getattr(messages, kind)(**fields)
    return made
