"""OpenAI Chat Completions: calls in ``tool_calls``, each answered by a ``tool`` message right behind.

Rules: https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.formats.arguments import as_text, is_json_object, text_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, malformed, replaced, role_in, text_of
from toolmend.mending.layout import Note, Placeholder, Slot
from toolmend.mending.transcript import Call, Message, Part, Result, Role, Rules, Transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

NAME: Final = "openai-chat"
RULES: Final = Rules(
    result_role="tool",
    joins_turns=False,
    ids_unique_in_request=False,
    is_legal_id=lambda _: True,
    patch_result_turns=False,
    stubs_head=False,
    system_needs_user_turn=False,
    reasoning_needs_successor=False,
    write_arguments=as_text,
)
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "other",
}
_PASSING: Final = frozenset(("system", "developer", "user", "function"))
_OTHER_CONTENT: Final = ("function_call", "refusal", "audio")
_CONTENT_SLOT: Final = -2


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done; open calls at the end are a no."""
    pending: set[str] = set()
    try:
        for message in messages:
            role = message.get("role") if type(message) is dict else get(message, "role")
            if role == "tool":
                pending.remove(get(message, "tool_call_id"))
            elif pending:
                return False
            elif role == "assistant":
                calls = get(message, "tool_calls")
                if calls is None:
                    if not get(message, "content") and _is_empty(message):
                        return False
                elif not calls or type(calls) not in (list, tuple):
                    return False
                else:
                    for call in calls:
                        if not _is_legal_call(call, pending):
                            return False
            elif role not in _PASSING:
                return False
    except (KeyError, TypeError, AttributeError):
        return False
    return not pending


def _is_legal_call(call: Any, pending: set[str]) -> bool:
    call_id = get(call, "id")
    if type(call_id) is not str or not call_id or call_id.isspace() or call_id in pending:
        return False
    pending.add(call_id)
    is_custom = get(call, "type") == "custom"
    body = get(call, "custom" if is_custom else "function")
    name = get(body, "name")
    if type(name) is not str or not name or name.isspace():
        return False
    if is_custom:
        return True
    arguments = get(body, "arguments")
    return type(arguments) is str and is_json_object(arguments)


def _is_empty(message: object) -> bool:
    """Tell whether an assistant message without calls holds nothing; an empty text is legal."""
    content = get(message, "content")
    return (content is None or content in ([], ())) and not _has_other_content(message)


def _has_other_content(message: object) -> bool:
    return any(get(message, name) for name in _OTHER_CONTENT)


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form.

    Raises:
        MalformedHistoryError: a message without a role, or with calls that are no list.
    """
    transcript = Transcript()
    for index, message in enumerate(messages):
        transcript.messages.append(_read_message(transcript, index, message))
    return transcript


def _read_message(transcript: Transcript, index: int, message: object) -> Message:
    role = role_in(message, index, NAME)
    if role == "tool":
        result = transcript.add_result(
            slot=0,
            id=get(message, "tool_call_id"),
            text=partial(_text, message),
        )
        return Message("tool", (result,))
    if role == "assistant":
        return _read_assistant(transcript, index, message)
    known = _ROLES.get(role, "unknown")
    is_blank = known in ("system", "user") and not get(message, "content")
    return Message(known, (), is_blank=is_blank)


def _text(message: object) -> str | None:
    return text_of(get(message, "content"))


def _read_assistant(transcript: Transcript, index: int, message: object) -> Message:
    calls = get(message, "tool_calls")
    content = get(message, "content")
    parts: list[Part] = []
    if content or _has_other_content(message):
        parts.append(transcript.content(_CONTENT_SLOT))
    if calls is None:
        is_empty = not parts and _is_empty(message)
        return Message("assistant", parts, empty=is_empty, is_blank=not parts)
    if not isinstance(calls, list | tuple):
        raise malformed(
            NAME, index, f"has tool_calls of type {type(calls).__name__}", "make it a list"
        )
    for slot, call in enumerate(calls):
        if call is None or isinstance(call, str | int | float | list | tuple):
            raise malformed(
                NAME, index, f"has no tool call at tool_calls[{slot}]", "remove that entry"
            )
        parts.append(_read_call(transcript, slot, call))
    return Message("assistant", parts, empty=not parts, has_empty_call_list=not calls)


def _read_call(transcript: Transcript, slot: int, call: object) -> Call:
    if get(call, "type") == "custom":
        custom = get(call, "custom")
        return transcript.add_call(
            slot=slot,
            id=get(call, "id"),
            name=get(custom, "name"),
            arguments=get(custom, "input"),
        )
    function = get(call, "function")
    arguments = get(function, "arguments")
    return transcript.add_call(
        slot=slot,
        id=get(call, "id"),
        name=get(function, "name"),
        arguments=arguments,
        state=text_state(arguments),
    )


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of an assistant message, None for any other message."""
    if get(message, "role") != "assistant":
        return None
    calls: list[CallFacts] = []
    for call in get(message, "tool_calls") or ():
        is_custom = get(call, "type") == "custom"
        body = get(call, "custom" if is_custom else "function")
        arguments = get(body, "input" if is_custom else "arguments")
        calls.append(CallFacts(get(body, "name"), get(call, "id"), arguments))
    return calls


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    return bool(get(message, "role") == "user")


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new message of the mended history."""
    parts = slot.parts or ()
    first = parts[0] if parts else None
    if isinstance(first, Placeholder):
        return {
            "role": "tool",
            "tool_call_id": plan.id_of(first.call),
            "content": plan.text_of(first),
        }
    if isinstance(first, Note):
        return {"role": slot.role, "content": first.text}
    assert slot.source is not None
    message = messages[slot.source]
    if isinstance(first, Result):
        new_id = plan.result_ids.get(first.number)
        return message if new_id is None else replaced(message, {"tool_call_id": new_id})
    calls = [part for part in parts if isinstance(part, Call)]
    if not calls:
        return replaced(message, {}, drop=("tool_calls",))
    entries = get(message, "tool_calls")
    return replaced(
        message, {"tool_calls": [_write_call(entries[call.slot], call, plan) for call in calls]}
    )


def _write_call(entry: object, call: Call, plan: Plan) -> object:
    updates: dict[str, object] = {}
    if call.number in plan.call_ids:
        updates["id"] = plan.call_ids[call.number]
    if call.number in plan.fixed_arguments:
        updates["function"] = replaced(
            get(entry, "function"), {"arguments": as_text(call.arguments)}
        )
    return replaced(entry, updates) if updates else entry
