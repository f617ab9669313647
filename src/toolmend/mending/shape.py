"""Shape: how the messages of a laid out history are joined, divided and headed, as its format wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.mending.draft import is_mark
from toolmend.mending.layout import NewPart, Note, Placeholder, Slot
from toolmend.mending.texts import ASSISTANT_BRIDGE, HEAD_STUB
from toolmend.mending.transcript import Call, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.mending.draft import Draft
    from toolmend.mending.findings import Kind
    from toolmend.mending.transcript import Rules


def shape(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Return the messages in the shape that format and profile want.

    Args:
        draft: all decisions.
        slots: the messages in order, with everything in its place.
    """
    rules = draft.rules
    profile = draft.policy.profile
    if rules.results_alone:
        slots = _set_apart(draft, _join(draft, slots))
    elif rules.alternates or (draft.policy.strict_alternation and _is_anthropic(rules)):
        slots = _join(draft, slots)
    if profile == "mistral" and rules.result_role == "tool" and not rules.results_anywhere:
        slots = _bridge_to_users(draft, slots)
    if profile == "bedrock-open-weights" and rules.alternates:
        slots = _divide_results(draft, slots)
    if rules.head != "any" and not draft.keeps_server_state:
        slots = _head(draft, slots)
    return slots


def _is_anthropic(rules: Rules) -> bool:
    """Tell whether results lead the messages of a user, which hosts may want to be one."""
    return rules.results_lead and rules.result_role == "user"


def _join(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Join neighbours of one role where that is wanted."""
    return [_joined(draft, group) for group in _groups(draft, slots)]


def _groups(draft: Draft, slots: list[Slot]) -> list[list[Slot]]:
    """Return the messages in groups, each of which becomes one."""
    groups: list[list[Slot]] = []
    answers: list[bool] = []  # whether results stand in a group
    end: int | None = None  # the last message of the input in the last group
    leads = _before_results(draft, slots)
    for index, slot in enumerate(slots):
        stood = _stood(slot)
        if groups and _are_one(draft, groups[-1], end, slot, leads=index in leads):
            groups[-1].append(slot)
            answers[-1] = answers[-1] or _has_results(draft, slot)
            end = end if stood is None else stood
            if answers[-2:] == [True, True] and _share_results(draft, groups[-2], groups[-1]):
                groups[-2].extend(groups.pop())
                answers.pop()
        else:
            groups.append([slot])
            answers.append(_has_results(draft, slot))
            end = stood
    if not draft.rules.results_alone:
        return groups
    # Calls stand right behind the user, so all that the model said between is one with them.
    return [
        part
        for group in groups
        for part in (
            [group]
            if group[0].role != "assistant" or any(_has_calls(draft, slot) for slot in group)
            else [[slot] for slot in group]
        )
    ]


def _share_results(draft: Draft, before: list[Slot], last: list[Slot]) -> bool:
    """Tell whether results that have come to two neighbours belong in one message."""
    if draft.rules.results_alone or draft.rules.alternates:
        return False
    return before[0].role == last[0].role == "user"


def _before_results(draft: Draft, slots: Sequence[Slot]) -> set[int]:
    """Return the places of messages with more results behind them before the model speaks."""
    if draft.policy.profile != "bedrock-open-weights":
        return set()
    found: set[int] = set()
    has_results = False
    for index in range(len(slots) - 1, -1, -1):
        if slots[index].role != "user":
            has_results = False
        elif has_results:
            found.add(index)
        else:
            has_results = _has_results(draft, slots[index])
    return found


def _are_one(
    draft: Draft, group: Sequence[Slot], end: int | None, slot: Slot, *, leads: bool
) -> bool:
    first = group[0]
    if first.role != slot.role or slot.role not in ("user", "assistant"):
        return False
    has_more = _has_results(draft, slot)
    if draft.rules.alternates:
        is_apart = draft.policy.profile == "bedrock-open-weights" and not (has_more or leads)
        return not (is_apart and _has_only_results(draft, group[-1]))
    if draft.rules.results_alone and slot.role == "assistant":
        return True
    if draft.rules.results_alone:
        if has_more or _has_results(draft, first):
            return False  # never into a message with results
    elif has_more and _has_results(draft, group[-1]):
        return True  # all results of a batch stand in one message
    return _lost_a_turn_between(draft, end, _stood(slot))


def _joined(draft: Draft, group: Sequence[Slot]) -> Slot:
    """Return one message that holds all of a group."""
    first = group[0]
    if len(group) == 1:
        return first
    parts = [*_parts(draft, first)]
    end = _stood(first)
    has_results = _has_results(draft, first)
    for slot in group[1:]:
        stood = _stood(slot)
        has_more = _has_results(draft, slot)
        if _were_neighbours(draft, end, stood):
            kind: Kind = "split_results" if has_results and has_more else "role_order"
            draft.find(kind, "merged", index=-1 if stood is None else stood)
        parts.extend(_parts(draft, slot))
        has_results = has_results or has_more
        end = end if stood is None else stood
    sources = [slot.source for slot in group if slot.source is not None]
    return Slot(
        sources[0] if sources else None,
        first.role,
        parts,
        is_moved=all(slot.is_moved for slot in group),
    )


def _stood(slot: Slot) -> int | None:
    """Return where a message stood that is still in its place."""
    return None if slot.is_moved else slot.source


def _were_neighbours(draft: Draft, before: int | None, index: int | None) -> bool:
    """Tell whether nothing stood between two messages of the input but what was empty from the start."""
    if before is None or index is None or index <= before:
        return False
    return all(between in draft.empty for between in range(before + 1, index))


def _lost_a_turn_between(draft: Draft, before: int | None, index: int | None) -> bool:
    """Tell whether the model spoke between two messages of the input, and all of that was dropped."""
    if before is None or index is None or index <= before:
        return False
    return any(
        draft.transcript.messages[between].role == "assistant" and between not in draft.empty
        for between in range(before + 1, index)
    )


def _set_apart(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Gather the results of each batch of several calls in one message that holds nothing else."""
    apart: list[Slot] = []
    at = 0
    while at < len(slots):
        slot = slots[at]
        apart.append(slot)
        at += 1
        calls = [part for part in _parts(draft, slot) if isinstance(part, Call) and not part.server]
        if slot.role != "assistant" or not calls:
            continue
        own = {call.number: place for place, call in enumerate(calls)}
        answers: list[Slot] = []
        while at < len(slots) and _answers(draft, slots[at], own):
            answers.append(slots[at])
            at += 1
        apart.extend(_one_answer(draft, answers, own))
    return apart


def _one_answer(draft: Draft, answers: Sequence[Slot], own: dict[int, int]) -> list[Slot]:
    """Return the messages that answer one batch, its results in the first of them."""
    parts = [part for slot in answers for part in _parts(draft, slot)]
    results = [part for part in parts if _call_of(draft, part) in own]
    others = [part for part in parts if _call_of(draft, part) not in own]
    if not answers or (len(answers) == 1 and (not others or len(own) == 1)):
        return [
            slot if slot.parts is None else slot._replace(parts=_in_call_order(draft, slot, own))
            for slot in answers
        ]
    sources = [slot.source for slot in answers if slot.source is not None and not slot.is_moved]
    if len(sources) > 1:
        draft.find("split_results", "merged", index=sources[1])
    if others:
        draft.find("mixed_result_turn", "split", index=sources[0] if sources else -1)
    gathered = Slot(
        sources[0] if sources else None,
        "user",
        sorted(results, key=lambda part: own[_call_of(draft, part)]),
    )
    return [gathered, Slot(None, "user", others)] if others else [gathered]


def _in_call_order(draft: Draft, slot: Slot, own: dict[int, int]) -> list[NewPart]:
    """Return the parts of a message with its results in the order of their calls, in the same places."""
    parts = list(slot.parts or ())
    places = [place for place, part in enumerate(parts) if _call_of(draft, part) in own]
    results = sorted((parts[place] for place in places), key=lambda p: own[_call_of(draft, p)])
    for place, result in zip(places, results, strict=True):
        parts[place] = result
    return parts


def _answers(draft: Draft, slot: Slot, own: dict[int, int]) -> bool:
    return slot.role == "user" and any(_call_of(draft, part) in own for part in _parts(draft, slot))


def _head(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Let the user speak first."""
    if not slots or slots[0].role != "assistant":
        return slots
    if draft.rules.head == "no_calls" and not _has_calls(draft, slots[0]):
        return slots
    draft.find("bad_first_turn", "stubbed", index=slots[0].source or 0)
    return [Slot(None, "user", (Note(HEAD_STUB[draft.policy.language]),)), *slots]


def _divide_results(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Divide messages that hold results and other content, with a short answer in between."""
    apart: list[Slot] = []
    for slot in slots:
        results: list[NewPart] = []
        others: list[NewPart] = []
        parts = _parts(draft, slot)
        leads = next((part for part in parts if not is_mark(part)), None)
        place = results if isinstance(leads, Result | Placeholder) else others
        for part in parts:
            if not is_mark(part):  # a mark stays behind what it stands behind, or in front of all
                place = results if isinstance(part, Result | Placeholder) else others
            place.append(part)
        pieces = [slot]
        if slot.role == "user" and results and others:
            pieces = [slot._replace(parts=results), Slot(None, "user", others)]
        for piece in pieces:
            if apart and piece.role == apart[-1].role == "user":
                bridge = Note(ASSISTANT_BRIDGE[draft.policy.language])
                draft.find(
                    "role_order", "bridged", index=-1 if slot.source is None else slot.source
                )
                apart.append(Slot(None, "assistant", (bridge,)))
            apart.append(piece)
    return apart


def _bridge_to_users(draft: Draft, slots: list[Slot]) -> list[Slot]:
    """Put a short answer between results and what the user says next."""
    bridged: list[Slot] = []
    for slot in slots:
        if slot.role == "user" and bridged and bridged[-1].role == "tool":
            bridge = Note(ASSISTANT_BRIDGE[draft.policy.language])
            bridged.append(Slot(None, "assistant", (bridge,)))
            draft.find("role_order", "bridged", index=-1 if slot.source is None else slot.source)
        bridged.append(slot)
    return bridged


def _parts(draft: Draft, slot: Slot) -> Sequence[NewPart]:
    if slot.parts is not None or slot.source is None:
        return slot.parts or ()
    return draft.transcript.messages[slot.source].parts


def _call_of(draft: Draft, part: NewPart) -> int:
    """Return the number of the call that a part answers, -1 if it answers none."""
    if isinstance(part, Placeholder):
        return part.call.number
    if isinstance(part, Result):
        return draft.match.owners.get(part.number, -1)
    return -1


def _has_calls(draft: Draft, slot: Slot) -> bool:
    return any(isinstance(part, Call) and not part.server for part in _parts(draft, slot))


def _has_only_results(draft: Draft, slot: Slot) -> bool:
    return _has_results(draft, slot) and all(
        isinstance(part, Result | Placeholder) or is_mark(part) for part in _parts(draft, slot)
    )


def _has_results(draft: Draft, slot: Slot) -> bool:
    return any(isinstance(part, Result | Placeholder) for part in _parts(draft, slot))
