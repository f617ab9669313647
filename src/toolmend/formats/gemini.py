"""Gemini: ``functionCall`` parts of the model, answered by ``functionResponse`` parts in the very next content.

Rules: https://ai.google.dev/gemini-api/docs/function-calling and, for signatures,
https://ai.google.dev/gemini-api/docs/thought-signatures. Keys may be camelCase or snake_case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolmend.formats.arguments import as_object, object_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, malformed, replaced
from toolmend.formats.gemini_pairs import result_keys
from toolmend.formats.gemini_parts import (
    ARGS,
    ITSELF,
    call_in,
    field,
    has_parts,
    is_signed,
    name_of,
    response_in,
    response_part,
    text_of_response,
)
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
    from collections.abc import Hashable

    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

NAME: Final = "gemini"
RULES: Final = Rules(
    result_role="user",
    joins_turns=True,
    ids_unique_in_request=False,
    is_legal_id=lambda _: True,
    patch_result_turns=True,
    stubs_head=True,
    system_needs_user_turn=False,
    reasoning_needs_successor=False,
    results_lead=False,
    results_alone=True,
    ids_optional=True,
    head="no_calls",
    write_arguments=as_object,
)
_ROLES: Final[dict[object, Role]] = {
    "user": "user",
    "function": "user",
    "tool": "user",  # as the SDK's own samples have it
    "model": "assistant",
    None: "user",
}
_LISTS: Final = (list, tuple)
_NONE: Final[Sequence[object]] = ()
_WIRE_ROLES: Final = {"user": "user", "assistant": "model"}


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done; open calls at the end are a no."""
    pending: Sequence[object] = _NONE  # the calls of the content right before
    before: Role | None = None
    try:
        for message in messages:
            if type(message) is dict:
                role = _ROLES[message.get("role")]
                parts = message["parts"]
            else:
                role = "user" if type(message) is str else _ROLES[get(message, "role")]
                parts = (message,) if type(message) is str else get(message, "parts")
            if not parts or type(parts) not in _LISTS:
                return False
            if role == "user":
                if not (_are_answers(parts, pending) if pending else not _has_responses(parts)):
                    return False
                pending = _NONE
            else:
                calls = _NONE if pending else _legal_calls(parts)
                if pending or calls is None or (calls and before != "user"):
                    return False
                pending = calls
            before = role
    except (KeyError, TypeError, AttributeError):
        return False
    return not pending


def _has_responses(parts: Sequence[object]) -> bool:
    for part in parts:
        if type(part) is dict:
            if "functionResponse" in part or "function_response" in part:
                return True
        elif response_in(part) is not None:
            return True
    return False


def _legal_calls(parts: Sequence[object]) -> Sequence[object] | None:
    """Return the calls of a content of the model; None is a doubt."""
    calls: list[object] | None = None
    ids: set[object] | None = None
    for part in parts:
        call = call_in(part)
        if call is None:
            if response_in(part) is not None:
                return None
            continue
        name, arguments, call_id = _facts_of(call)
        if type(name) is not str or not name.strip():
            return None
        if not (type(arguments) is dict or arguments is None or isinstance(arguments, Mapping)):
            return None
        if call_id is not None:
            if type(call_id) is not str or not call_id or call_id.isspace():
                return None
            if ids is None:
                ids = {call_id}
            elif call_id in ids:
                return None
            else:
                ids.add(call_id)
        if calls is None:
            calls = [call]
        else:
            calls.append(call)
    return _NONE if calls is None else calls


def _facts_of(call: object) -> tuple[object, object, object]:
    """Return the name, the arguments and the id of a call."""
    if type(call) is dict:
        return call.get("name"), call.get(ARGS), call.get("id")
    return get(call, "name"), get(call, ARGS), get(call, "id")


def _are_answers(parts: Sequence[object], calls: Sequence[object]) -> bool:
    """Tell whether a content answers the calls right before it, each once, as it has to."""
    if len(calls) == len(parts) == 1:
        call, answer = calls[0], response_in(parts[0])
        return (
            get(answer, "id") == get(call, "id")
            and get(answer, "name") == get(call, "name")
            and _is_object(answer)
        )
    responses = [response for part in parts if (response := response_in(part)) is not None]
    if len(responses) != len(calls):
        return False
    if len(calls) > 1 and len(parts) > len(responses):
        return False
    by_id = {get(call, "id"): get(call, "name") for call in calls}
    if None in by_id:
        if len(by_id) > 1:
            return False  # some have ids and some have none: the full path tells them apart
        if any(get(response, "id") is not None for response in responses):
            return False  # it may be the id of another call
        return sorted(map(name_of, calls)) == sorted(map(name_of, responses)) and all(
            _is_object(response) for response in responses
        )
    return all(
        by_id.pop(get(response, "id")) == get(response, "name") and _is_object(response)
        for response in responses
    )


def _is_object(response: object) -> bool:
    value = get(response, "response")
    return type(value) is dict or isinstance(value, Mapping)


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form.

    Raises:
        MalformedHistoryError: a content of no known shape.
    """
    transcript = Transcript()
    keys = result_keys(messages)
    for index, message in enumerate(messages):
        transcript.messages.append(_read_content(transcript, index, message, keys))
    return transcript


def _read_content(
    transcript: Transcript, index: int, message: object, keys: Mapping[tuple[int, int], Hashable]
) -> Message:
    if isinstance(message, str):
        return Message("user", (transcript.content(0),))
    if message is None or isinstance(message, int | float | list | tuple):
        raise malformed(
            NAME, index, f"is a {type(message).__name__}", "make it a content with role and parts"
        )
    role = get(message, "role")
    known = _ROLES.get(role, "unknown") if role is None or isinstance(role, str) else "unknown"
    if known == "unknown":
        return Message(known, ())
    if not has_parts(message):
        # The SDK takes single parts, files and what it can turn into them, as words of the user.
        is_call = call_in(message) is not None
        known = "assistant" if is_call else "user"
        part = _read_part(transcript, (index, ITSELF), message, role=known, keys=keys)
        return Message(known, (part,))
    parts = get(message, "parts")
    if parts is not None and not isinstance(parts, list | tuple):
        raise malformed(NAME, index, f"has parts of type {type(parts).__name__}", "make it a list")
    read_parts = [
        _read_part(transcript, (index, slot), part, role=known, keys=keys)
        for slot, part in enumerate(parts or ())
    ]
    return Message(known, read_parts, empty=not read_parts)


def _read_part(
    transcript: Transcript,
    place: tuple[int, int],
    part: object,
    *,
    role: Role,
    keys: Mapping[tuple[int, int], Hashable],
) -> Part:
    index, slot = place
    if part is None or isinstance(part, int | float | list | tuple):
        raise malformed(NAME, index, f"has no part at parts[{slot}]", "make it a part")
    call = call_in(part)
    if call is not None and role == "assistant":
        arguments = get(call, ARGS)
        name = get(call, "name")
        return transcript.add_call(
            slot=slot,
            id=get(call, "id"),
            key=keys.get(place),
            name=name,
            arguments={} if arguments is None else arguments,
            state="fine" if arguments is None else object_state(arguments),
            signed=is_signed(part),
            family=name if isinstance(name, str) else "",
        )
    response = response_in(part)
    if response is not None:
        return transcript.add_result(
            slot=slot,
            id=get(response, "id"),
            key=keys.get(place),
            text=lambda: text_of_response(response),
            family=name_of(response),
        )
    is_thought = get(part, "thought") is True
    return transcript.content(slot, ContentKind.REASONING if is_thought else ContentKind.PLAIN)


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the calls of a content of the model, None for any other content."""
    if isinstance(message, str):
        return None
    if get(message, "role") != "model":
        alone = None if has_parts(message) else call_in(message)
        if alone is None:
            return None
        return [CallFacts(get(alone, "name"), usable_id(get(alone, "id")), get(alone, ARGS))]
    parts = get(message, "parts")
    if not isinstance(parts, list | tuple):
        return []
    return [
        CallFacts(get(call, "name"), usable_id(get(call, "id")), get(call, ARGS))
        for part in parts
        if (call := call_in(part)) is not None
    ]


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    parts = get(message, "parts")
    return (
        get(message, "role") == "user"
        and isinstance(parts, list | tuple)
        and not _has_responses(parts)
    )


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new content of the mended history."""
    parts = [_write_part(messages, plan, part) for part in slot.parts or ()]
    if slot.source is None or not has_parts(messages[slot.source]):
        return {"role": _WIRE_ROLES[slot.role], "parts": parts}
    return replaced(messages[slot.source], {"parts": parts})


def _write_part(messages: Sequence[object], plan: Plan, part: object) -> object:
    if isinstance(part, Placeholder):
        call_id = None if part.call.id is None else plan.id_of(part.call)
        answer = {"error": plan.text_of(part)}
        return response_part(call_id, part.call.name, answer, _part_at(messages, part.call))
    if isinstance(part, Note):
        return {"text": part.text}
    source = _part_at(messages, part)
    updates: dict[str, object] = {}
    if isinstance(part, Call):
        if part.number in plan.call_ids:
            updates["id"] = plan.call_ids[part.number]
        if part.number in plan.fixed_arguments:
            updates[ARGS] = as_object(part.arguments)
        return _with(source, "function_call", updates) if updates else source
    if isinstance(part, Result):
        if part.number in plan.result_ids:
            updates["id"] = plan.result_ids[part.number]
        if part.number in plan.retyped:
            updates["name"] = plan.retyped[part.number].name
        return _with(source, "function_response", updates) if updates else source
    return source


def _with(part: object, name: str, updates: Mapping[str, object]) -> object:
    spelled = field(part, name)
    return replaced(part, {spelled: replaced(get(part, spelled), updates)})


def _part_at(messages: Sequence[object], part: Any) -> object:
    message = messages[part.message]
    if isinstance(message, str):
        return {"text": message}
    found: object = message if part.slot == ITSELF else get(message, "parts")[part.slot]
    return found
