"""OpenAI Responses: a flat list of items; each call item is answered by an item of its own family behind it.

Rules: https://platform.openai.com/docs/guides/function-calling and the item types of the openai SDK.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from toolmend.formats.arguments import as_text, is_json_object, text_state
from toolmend.formats.batches import CallFacts
from toolmend.formats.fields import get, malformed, replaced
from toolmend.formats.responses_items import (
    APPLY_PATCH,
    BY_CALL,
    BY_RESULT,
    COMPUTER,
    CUSTOM,
    FUNCTION,
    HOSTED,
    LOCAL_SHELL,
    MESSAGE,
    NOT_LED,
    REASONING,
    REFERENCE,
    SHELL,
    Family,
    refers_to_server,
    result_id,
    text_of_output,
    type_of,
)
from toolmend.mending.ids import as_written
from toolmend.mending.layout import Placeholder, Slot
from toolmend.mending.transcript import (
    Call,
    ContentKind,
    Message,
    Result,
    Role,
    Rules,
    Transcript,
    usable_id,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

NAME: Final = "openai-responses"
RULES: Final = Rules(
    result_role="tool",
    joins_turns=True,
    ids_unique_in_request=True,
    is_legal_id=lambda _: True,
    patch_result_turns=False,
    stubs_head=False,
    system_needs_user_turn=False,
    reasoning_needs_successor=False,
    reasoning_leads=True,
    results_anywhere=True,
    write_arguments=as_text,
)
_NO_OUTCOME: Final = {"type": "timeout"}
"""Of a made-up result, where the type forces an outcome: it claims none."""
_WELL: Final = {"type": "exit", "exit_code": 0}
# An answer ends a run of calls, so it is no part of the turn that the calls make up.
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "other",
}


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done; open calls at the end are a no."""
    open_calls: dict[object, Family] = {}
    used: set[str] = set()
    needs_lead = False  # reasoning stands right before
    try:
        for item in messages:
            kind = item.get("type") if type(item) is dict else None
            if type(kind) is not str:
                kind = type_of(item)
            if kind == MESSAGE:
                role = item["role"] if type(item) is dict else get(item, "role")
                if role not in _ROLES or (needs_lead and role != "assistant"):
                    return False
                needs_lead = False
            elif kind == REASONING:
                needs_lead = True
            elif (family := BY_CALL.get(kind)) is not None:
                call_id = get(item, "call_id")
                if call_id in used or not _is_legal_call(item, family, call_id):
                    return False
                used.add(call_id)
                open_calls[call_id] = family
                needs_lead = False
            elif (family := BY_RESULT.get(kind)) is not None:
                if needs_lead or open_calls.pop(result_id(item, family)) is not family:
                    return False
            elif kind is None or kind == REFERENCE or (needs_lead and kind in NOT_LED):
                return False
            else:
                needs_lead = False
    except (KeyError, TypeError, AttributeError):
        return False
    return not open_calls and not needs_lead


def _is_legal_call(item: object, family: Family, call_id: object) -> bool:
    if type(call_id) is not str or not call_id or call_id.isspace():
        return False
    if family.named:
        name = get(item, "name")
        if type(name) is not str or not name.strip():
            return False
    if family is not FUNCTION:
        return True
    arguments = get(item, "arguments")
    return type(arguments) is str and is_json_object(arguments) and not _has_bad_id(item)


def _has_bad_id(item: object) -> bool:
    own = get(item, "id")
    return own is not None and not (isinstance(own, str) and own.startswith("fc"))


def read(messages: Sequence[object]) -> Transcript:
    """Read a history into the normal form: one item is one message.

    Raises:
        MalformedHistoryError: an item without type and role.
    """
    transcript = Transcript(refers_to_server=refers_to_server(messages))
    for index, item in enumerate(messages):
        transcript.messages.append(_read_item(transcript, index, item))
    return transcript


def _read_item(transcript: Transcript, index: int, item: object) -> Message:
    kind = type_of(item)
    if kind is None:
        raise malformed(
            NAME, index, f"({type(item).__name__}) has no type", "give it a type or remove it"
        )
    if kind in BY_CALL:
        return Message("assistant", (_read_call(transcript, item, BY_CALL[kind]),))
    if kind in BY_RESULT:
        family = BY_RESULT[kind]
        result = transcript.add_result(
            slot=0,
            id=result_id(item, family),
            key=_key(result_id(item, family), family),
            text=partial(text_of_output, item),
            family=family.call,
        )
        return Message("tool", (result,))
    if kind == REASONING:
        return Message("assistant", (transcript.content(0, ContentKind.REASONING),))
    if kind in HOSTED:  # of the same answer as the calls beside it
        return Message("assistant", (transcript.content(0, ContentKind.LED),))
    if kind != MESSAGE:
        is_led = kind not in NOT_LED
        return Message(
            "other", (transcript.content(0, ContentKind.LED if is_led else ContentKind.PLAIN),)
        )
    role = get(item, "role")
    known = _ROLES.get(role, "unknown") if isinstance(role, str) else "unknown"
    if known == "unknown":
        return Message(known, ())
    is_answer = role == "assistant"
    return Message(
        known, (transcript.content(0, ContentKind.LED if is_answer else ContentKind.PLAIN),)
    )


def _read_call(transcript: Transcript, item: object, family: Family) -> Call:
    arguments = _arguments(item, family)
    return transcript.add_call(
        slot=0,
        id=get(item, "call_id"),
        key=_key(get(item, "call_id"), family),
        name=_name(item, family),
        arguments=arguments,
        state=text_state(arguments) if family is FUNCTION else "fine",
        is_fixable=family is FUNCTION,
        answerable=family is not COMPUTER,
        family=family.call,
        has_bad_item_id=family is FUNCTION and _has_bad_id(item),
    )


def _key(call_id: object, family: Family) -> Hashable:
    """Return what pairs a call with its result where the id is missing: then only the family can."""
    return None if usable_id(call_id) is not None else ("missing", family.call)


def _name(item: object, family: Family) -> object:
    return get(item, "name") if family.named else family.tool


def _arguments(item: object, family: Family) -> object:
    if family.text:
        return get(item, family.text)
    return get(item, "operation") if family is APPLY_PATCH else get(item, "action")


def calls_of(message: object) -> list[CallFacts] | None:
    """Return the call of a call item, none for what else the model says, None for any other item."""
    kind = type_of(message)
    family = BY_CALL.get(kind or "")
    if family is not None:
        call_id = usable_id(get(message, "call_id"))
        return [CallFacts(_name(message, family), call_id, _arguments(message, family))]
    if kind == REASONING or kind in HOSTED:
        return []
    if kind == MESSAGE and get(message, "role") == "assistant":
        return []
    return None


def begins(message: object) -> bool:
    """Tell whether the user speaks and answers no call, so that a turn may begin here."""
    return type_of(message) == MESSAGE and get(message, "role") == "user"


def write(messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    """Write one changed or new item of the mended history."""
    [part] = slot.parts or ()
    if isinstance(part, Placeholder):
        family = BY_CALL[part.call.family]
        text = plan.text_of(part)
        return new_result(family, plan.id_of(part.call), text, is_error=True, outcome=_NO_OUTCOME)
    assert slot.source is not None
    item = messages[slot.source]
    if isinstance(part, Result):
        return _write_result(item, part, plan)
    updates: dict[str, object] = {}
    drop: tuple[str, ...] = ()
    if isinstance(part, Call):
        if part.number in plan.call_ids:
            updates["call_id"] = plan.call_ids[part.number]
        if part.number in plan.fixed_arguments:
            updates["arguments"] = as_text(part.arguments)
        if part.number in plan.stripped:
            drop = ("id",)
    return replaced(item, updates, drop)


def _write_result(item: object, result: Result, plan: Plan) -> object:
    call = plan.retyped.get(result.number)
    new_id = plan.result_ids.get(result.number)
    if call is None:
        family = BY_CALL[result.family]
        if new_id is None:
            return item
        return replaced(item, {"id" if _is_by_item_id(item, family) else "call_id": new_id})
    family = BY_CALL[call.family]
    text = result.text()
    output = _as_output(family, get(item, "output")) if text is None else text
    return new_result(family, plan.id_of(call), output, is_error=False, outcome=_WELL)


def _as_output(family: Family, output: object) -> object:
    """Return what is no text as an output of another family: content parts where it takes them, else JSON."""
    if family in (FUNCTION, CUSTOM):
        if isinstance(output, list | tuple):
            return output
        url = get(output, "image_url")
        if isinstance(url, str):
            return [{"type": "input_image", "image_url": url}]
    return as_written(output) or ""


def _is_by_item_id(item: object, family: Family) -> bool:
    return family is LOCAL_SHELL and get(item, "call_id") is None


def new_result(
    family: Family,
    call_id: str,
    output: object,
    *,
    is_error: bool,
    outcome: Mapping[str, object],
) -> dict[str, object]:
    """Return a new item that answers a call.

    Args:
        family: of the call.
        call_id: the id that pairs them.
        output: its text, or content parts.
        is_error: whether it tells of a failure, where the type has to say so.
        outcome: how a shell ended, where the type has to say that.
    """
    if family is LOCAL_SHELL:
        return {"type": family.result, "id": call_id, "output": output}
    item: dict[str, object] = {"type": family.result, "call_id": call_id}
    if family is SHELL:
        printed = {"stdout": "", "stderr": output} if is_error else {"stdout": output, "stderr": ""}
        item["output"] = [{**printed, "outcome": dict(outcome)}]
        return item
    if family is APPLY_PATCH:
        item["status"] = "failed" if is_error else "completed"
    item["output"] = output
    return item
