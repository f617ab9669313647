"""The views in which a LangChain message shows its calls: read as one, written alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toolmend.formats.arguments import text_state
from toolmend.formats.fields import get, kind_of, replaced
from toolmend.mending.transcript import ArgumentsState, Call, usable_id

if TYPE_CHECKING:
    from toolmend.mending.plan import Plan

CALL_BLOCKS: Final = {
    "tool_use": "id",
    "function_call": "call_id",
    "tool_call": "id",
    "invalid_tool_call": "id",
    "tool_call_chunk": "id",
}
"""Content blocks that are calls, and the key of the id there."""


class _View(NamedTuple):
    """One place in which a message shows its calls, and the key of the id there."""

    name: str
    entries: Sequence[Any]
    states: Sequence[ArgumentsState]


class ShownCall(NamedTuple):
    """One call of a message; an id seen in two views is one call."""

    id: object
    name: object
    arguments: object
    state: ArgumentsState


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
        blocks = [block if is_call_block(block) else None for block in message.content]
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


def is_call_block(block: object) -> bool:
    """Tell whether a content block is a call."""
    return isinstance(block, Mapping) and kind_of(block) in CALL_BLOCKS


def _entry_id(entry: object) -> object:
    return get(entry, "call_id" if get(entry, "type") == "function_call" else "id")


def shown_calls(message: object) -> list[ShownCall]:
    """Return the calls of a message, each once: an id seen in two views is one call."""
    found: dict[tuple[str | None, int], ShownCall] = {}
    for view in _views(message):
        uses: Counter[str | None] = Counter()
        for index, entry in enumerate(view.entries):
            if entry is None:
                continue
            call_id = _entry_id(entry)
            usable = usable_id(call_id)
            mark = (usable, uses[usable])
            uses[usable] += 1
            if mark in found:
                continue
            function = get(entry, "function") if view.name == "additional_kwargs" else entry
            arguments = get(function, "args")
            if arguments is None:
                arguments = get(function, "input")
            if arguments is None:
                arguments = get(function, "arguments")
            found[mark] = ShownCall(call_id, get(function, "name"), arguments, view.states[index])
    return list(found.values())


def write_calls(message: Any, plan: Plan, kept: list[Call]) -> object:
    """Copy a message whose calls change; a change reaches every view of the call."""
    shown = shown_calls(message)
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
        raw = _write_view(_raw_calls(message), new_ids)
        others = {
            key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"
        }
        # An empty list would be sent on, and refused.
        updates["additional_kwargs"] = {**others, "tool_calls": raw} if raw else others
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
        if is_content and not is_call_block(entry):
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
            key = CALL_BLOCKS.get(kind_of(entry) or "", "id")
            written.append(replaced(entry, {key: new_ids[mark]}))
    return written
