"""LangChain messages: the pairing rules of OpenAI Chat over objects that show a call in several views."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toolmend.formats import openai_chat
from toolmend.formats.arguments import text_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, kind_of, malformed, replaced, text_of
from toolmend.mending.layout import Note, Placeholder, Slot
from toolmend.mending.transcript import (
    ArgumentsState,
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
_CALL_BLOCKS: Final = {"tool_use": "id", "function_call": "call_id"}
_SIGNED_BLOCKS: Final = frozenset(("thinking", "redacted_thinking", "reasoning_content"))
_CONTENT_SLOT: Final = -2


class _View(NamedTuple):
    """One place in which a message shows its calls, and the key of the id there."""

    name: str
    entries: Sequence[Any]
    states: Sequence[ArgumentsState]


class _Shown(NamedTuple):
    """One call with its entry in each view: view name -> index."""

    id: object
    name: object
    arguments: object
    state: ArgumentsState
    places: Mapping[str, int]


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
                for call in _shown_calls(message):
                    if usable_id(call.id) is None or call.id in pending:
                        return False
                    if not isinstance(call.name, str) or not call.name.strip():
                        return False
                    pending.add(call.id)  # type: ignore[arg-type]  # usable ids are texts
    except (KeyError, TypeError, AttributeError):
        return False
    return not pending


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form; dicts and (role, text) pairs may stand between objects.

    Raises:
        MalformedHistoryError: an item that is no message.
    """
    transcript = Transcript()
    for index, message in enumerate(messages):
        if isinstance(message, Mapping):
            found = openai_chat.read_message(transcript, index, message, NAME)
            # A dict becomes an object here, and an empty list of calls or no content is normal there.
            transcript.messages.append(found._replace(empty=False, has_empty_call_list=False))
        elif isinstance(message, str):
            transcript.messages.append(Message("user", ()))
        elif isinstance(message, tuple) and message and isinstance(message[0], str):
            transcript.messages.append(Message(_ROLES.get(message[0], "unknown"), ()))
        elif is_message(message):
            transcript.messages.append(_read_object(transcript, message))
        else:
            raise malformed(
                NAME, index, f"({type(message).__name__}) is no message", "convert or remove it"
            )
    return transcript


def _read_object(transcript: Transcript, message: Any) -> Message:
    role = _ROLES.get(message.type, "unknown")
    if role == "tool":
        result = transcript.add_result(
            slot=0, id=message.tool_call_id, text=partial(text_of, message.content)
        )
        return Message("tool", (result,))
    if role != "assistant":
        return Message(role, ())
    try:
        shown = _shown_calls(message)
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
    return Message("assistant", parts)


def _has_other_content(content: object) -> bool:
    if not isinstance(content, list):
        return bool(content)
    return any(kind_of(block) not in _CALL_BLOCKS for block in content)


def _views(message: Any) -> Iterator[_View]:
    """Yield the views of a message that its calls are read from."""
    is_empty = True
    calls = _listed(message, "tool_calls")
    if calls:
        is_empty = False
        yield _View("tool_calls", calls, ["fine"] * len(calls))
    invalid = _listed(message, "invalid_tool_calls")
    if invalid:
        is_empty = False
        yield _View("invalid_tool_calls", invalid, ["unreadable"] * len(invalid))
    if isinstance(message.content, list):
        blocks = [block if _is_call_block(block) else None for block in message.content]
        if any(block is not None for block in blocks):
            is_empty = False
            yield _View("content", blocks, ["fine"] * len(blocks))
    if is_empty:
        raw = _raw_calls(message)
        if raw:
            states = [text_state(get(get(call, "function"), "arguments")) for call in raw]
            yield _View("additional_kwargs", raw, states)


def _listed(message: object, name: str) -> Sequence[Any]:
    calls = getattr(message, name, None)
    if calls is None or isinstance(calls, list | tuple):
        return calls or ()
    raise TypeError(f"has {name} of type {type(calls).__name__}")


def _raw_calls(message: Any) -> Sequence[Any]:
    raw = get(getattr(message, "additional_kwargs", None), "tool_calls")
    return raw if isinstance(raw, list | tuple) else ()


def _is_call_block(block: object) -> bool:
    return isinstance(block, Mapping) and kind_of(block) in _CALL_BLOCKS


def _entry_id(entry: object) -> object:
    return get(entry, "call_id" if get(entry, "type") == "function_call" else "id")


def _shown_calls(message: object) -> list[_Shown]:
    """Return the calls of a message, each once: an id seen in two views is one call."""
    found: dict[tuple[str | None, int], _Shown] = {}
    for view in _views(message):
        uses: Counter[str | None] = Counter()
        for index, entry in enumerate(view.entries):
            if entry is None:
                continue
            call_id = _entry_id(entry)
            usable = usable_id(call_id)
            mark = (usable, uses[usable])
            uses[usable] += 1
            known = found.get(mark)
            if known is not None:
                found[mark] = known._replace(places={**known.places, view.name: index})
                continue
            function = get(entry, "function") if view.name == "additional_kwargs" else entry
            arguments = get(function, "args")
            if arguments is None:
                arguments = get(function, "input")
            if arguments is None:
                arguments = get(function, "arguments")
            found[mark] = _Shown(
                call_id,
                get(function, "name"),
                arguments,
                view.states[index],
                {view.name: index},
            )
    return list(found.values())


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of an assistant message, None for any other message."""
    if isinstance(message, Mapping):
        return openai_chat.calls_of(message)
    if not is_message(message) or _ROLES.get(message.type) != "assistant":  # type: ignore[attr-defined]  # messages have a type
        return None
    return [CallFacts(call.name, call.id, call.arguments) for call in _shown_calls(message)]


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new message of the mended history."""
    parts = slot.parts or ()
    first = parts[0] if parts else None
    if isinstance(first, Placeholder):
        return _tool_message(
            content=plan.text_of(first),
            tool_call_id=plan.id_of(first.call),
            name=first.call.name,
            status="error",
        )
    assert slot.source is not None
    assert not isinstance(first, Note)
    message: Any = messages[slot.source]
    if isinstance(message, Mapping):
        return openai_chat.write(messages, plan, slot)
    if isinstance(first, Result):
        new_id = plan.result_ids.get(first.number)
        return message if new_id is None else replaced(message, {"tool_call_id": new_id})
    return _write_calls(message, plan, [part for part in parts if isinstance(part, Call)])


def _tool_message(**fields: object) -> object:
    """Make a ToolMessage; a history of its messages has imported langchain_core already."""
    return sys.modules["langchain_core.messages"].ToolMessage(**fields)


def _write_calls(message: Any, plan: Plan, kept: list[Call]) -> object:
    """Copy a message whose calls change; a change reaches every view of the call."""
    shown = _shown_calls(message)
    new_ids: dict[tuple[str | None, int], object] = {}
    uses: Counter[str | None] = Counter()
    kept_slots = {call.slot: call for call in kept}
    for slot, call in enumerate(shown):
        usable = usable_id(call.id)
        mark = (usable, uses[usable])
        uses[usable] += 1
        if slot in kept_slots:
            new_ids[mark] = plan.call_ids.get(kept_slots[slot].number, call.id)
    updates: dict[str, object] = {}
    for name in ("tool_calls", "invalid_tool_calls", "tool_call_chunks"):
        entries = getattr(message, name, None)
        if entries:
            updates[name] = _write_view(entries, new_ids)
    if isinstance(message.content, list):
        updates["content"] = _write_view(message.content, new_ids, is_content=True)
    if _raw_calls(message):
        updates["additional_kwargs"] = {
            **message.additional_kwargs,
            "tool_calls": _write_view(_raw_calls(message), new_ids),
        }
    return replaced(message, updates)


def _write_view(
    entries: Sequence[Any],
    new_ids: Mapping[tuple[str | None, int], object],
    *,
    is_content: bool = False,
) -> list[Any]:
    written: list[Any] = []
    uses: Counter[str | None] = Counter()
    for entry in entries:
        if is_content and not _is_call_block(entry):
            written.append(entry)
            continue
        old_id = _entry_id(entry)
        usable = usable_id(old_id)
        mark = (usable, uses[usable])
        uses[usable] += 1
        if mark not in new_ids:
            continue
        if new_ids[mark] == old_id:
            written.append(entry)
        else:
            key = _CALL_BLOCKS.get(kind_of(entry) or "", "id")
            written.append(replaced(entry, {key: new_ids[mark]}))
    return written
