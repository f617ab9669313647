"""The rules of OpenAI Chat over the messages of langchain-core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict import chat_problems
from toolmend.testing.strict.chat_runs import Assistant, Break, Entry, Result, judge_runs
from toolmend.testing.strict.plain import as_id, as_items, as_mapping, is_blank

if TYPE_CHECKING:
    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem

_AI_TYPES = ("ai", "AIMessageChunk")
_TOOL_TYPES = ("tool", "ToolMessageChunk")
_ID_BLOCKS = ("tool_use", "tool_call", "invalid_tool_call", "tool_call_chunk")
_USER_TYPES = ("human", "HumanMessageChunk")
_ROLES_BY_NAME = {"human": "user", "ai": "assistant"}
_TYPES_BY_ROLE = {"assistant": "ai", "tool": "tool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call as one view of a message shows it."""

    call_id: str | None
    is_nameless: bool


def judge_langchain(messages: Sequence[object], allowance: Allowance) -> list[Problem]:
    """Return what a chat model refuses in a list of langchain-core messages.

    Pairing is that of OpenAI Chat (langchain-ai/langgraph#4289). Arguments are not judged; empty
    content and an empty `tool_calls` are normal. Messages are objects, or dicts with their fields.
    """
    found: list[Problem] = []
    entries: list[Entry] = []
    for index, message in enumerate(messages):
        kind = _kind_of(message)
        if kind in _TOOL_TYPES:
            entries.append(Result(call_id=_field_of(message, "tool_call_id")))
        elif kind in _AI_TYPES:
            calls = _union(_views(message))
            for position, call in enumerate(calls):
                if call.is_nameless:
                    found.append(chat_problems.nameless_call(index, position, "name", call.call_id))
            entries.append(Assistant(call_ids=tuple(call.call_id for call in calls)))
        else:
            entries.append(Break())
    found.extend(judge_runs(entries, allowance))
    return sorted(found, key=lambda problem: problem.index)


def role_of(message: object) -> object:
    """Return the role that a message has on the wire of OpenAI Chat; dicts of that format too."""
    if isinstance(message, tuple):  # (role, text)
        role = message[0] if message else None
    else:
        role = _field_of(message, "role")
    if role is not None:
        return _ROLES_BY_NAME.get(role, role) if isinstance(role, str) else role
    kind = _kind_of(message)
    if kind in _AI_TYPES:
        return "assistant"
    if kind in _USER_TYPES:
        return "user"
    return "tool" if kind in _TOOL_TYPES else kind


def call_ids_of(message: object) -> list[str | None]:
    """Return the ids of the calls of a message, each counted once; None for a missing one."""
    if role_of(message) != "assistant":
        return []
    return [call.call_id for call in _union(_views(message))]


def result_id_of(message: object) -> str | None:
    """Return the id that a result names."""
    is_result = role_of(message) == "tool"
    return as_id(_field_of(message, "tool_call_id")) if is_result else None


def content_of(message: object) -> object:
    """Return the content of a message."""
    if isinstance(message, tuple):
        return message[1] if len(message) > 1 else None
    return _field_of(message, "content")


def reasoning_of(message: object) -> object:
    """Return the `reasoning_content` of a message, which langchain-core keeps in a dict beside."""
    kwargs = as_mapping(_field_of(message, "additional_kwargs")) or {}
    reasoning = _field_of(message, "reasoning_content")
    return kwargs.get("reasoning_content") if reasoning is None else reasoning


def _kind_of(message: object) -> object:
    """Return the type of a message; dicts may name a role instead, as chat models accept them."""
    kind = _field_of(message, "type")
    role = _field_of(message, "role")
    return _TYPES_BY_ROLE.get(role) if kind is None and isinstance(role, str) else kind


def _field_of(message: object, name: str) -> object:
    """Return a field of a message object or of a dict; None when it has none."""
    if isinstance(message, Mapping):
        return message.get(name)
    return getattr(message, name, None)


def _views(message: object) -> list[list[_Call]]:
    """Return the calls of each view: chat models send whichever of them they know.

    `invalid_tool_calls` are sent again too (langchain-ai/deepagents#2703), and so are content
    blocks when `tool_calls` was cleared (langchain-ai/deepagents#5781).
    """
    views = [
        list(_listed_calls(_field_of(message, "tool_calls"))),
        list(_listed_calls(_field_of(message, "invalid_tool_calls"))),
        list(_block_calls(_field_of(message, "content"))),
    ]
    if not any(views):
        kwargs = as_mapping(_field_of(message, "additional_kwargs")) or {}
        views.append(list(_listed_calls(kwargs.get("tool_calls"))))
    return views


def _listed_calls(value: object) -> Iterator[_Call]:
    for entry in as_items(value) or ():
        call = as_mapping(entry) or {}
        # `additional_kwargs` holds the calls as OpenAI spells them.
        function = as_mapping(call.get("function")) or call
        yield _Call(call_id=as_id(call.get("id")), is_nameless=is_blank(function.get("name")))


def _block_calls(content: object) -> Iterator[_Call]:
    for entry in as_items(content) or ():
        block = as_mapping(entry) or {}
        if block.get("type") in _ID_BLOCKS:
            yield _Call(call_id=as_id(block.get("id")), is_nameless=is_blank(block.get("name")))
        elif block.get("type") == "function_call":
            call_id = as_id(block.get("call_id"))
            yield _Call(call_id=call_id, is_nameless=is_blank(block.get("name")))


def _union(views: Iterable[list[_Call]]) -> list[_Call]:
    """Count a call seen in two views once, and two calls of one id in one view twice.

    A call has a name if any view names it.
    """
    calls: list[_Call] = []
    places: dict[str, list[int]] = {}
    for view in views:
        seen_here: Counter[str] = Counter()
        for call in view:
            if call.call_id is None:
                calls.append(call)
                continue
            known = places.setdefault(call.call_id, [])
            occurrence = seen_here[call.call_id]
            seen_here[call.call_id] += 1
            if occurrence == len(known):
                known.append(len(calls))
                calls.append(call)
            elif calls[known[occurrence]].is_nameless:
                calls[known[occurrence]] = call
    return calls
