"""Layout: in which order the messages of a mended history stand, and what each of them holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from toolmend.mending.draft import is_mark, is_other_content
from toolmend.mending.texts import HEAD_STUB, USER_BRIDGE
from toolmend.mending.transcript import Call, Message, Part, Result, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.mending.draft import Draft
    from toolmend.mending.findings import Cause
    from toolmend.mending.turns import Turn


class Placeholder(NamedTuple):
    """A made-up result."""

    call: Call
    cause: Cause


class Note(NamedTuple):
    """A short made-up text that keeps an order legal."""

    text: str


NewPart = Part | Placeholder | Note


class Slot(NamedTuple):
    """One message of the mended history.

    Attributes:
        source: index of the message it is made of, None for a new one.
        role: its role.
        parts: what it holds now; None when the message stays as it is.
        is_moved: it stands in another place than before.
    """

    source: int | None
    role: Role
    parts: Sequence[NewPart] | None
    is_moved: bool = False

    @property
    def is_synthetic(self) -> bool:
        """Whether something in it is made up."""
        return any(isinstance(part, Placeholder | Note) for part in self.parts or ())


@dataclass(slots=True)
class _Arrivals:
    """What comes in, by the place it comes to."""

    moved: set[int] = field(default_factory=set)
    behind_part: dict[tuple[int, int], list[NewPart]] = field(default_factory=dict)
    behind_message: dict[int, list[list[NewPart]]] = field(default_factory=dict)


_FRONT = -1


def lay_out(draft: Draft, misplaced: Sequence[Result], rewritten: set[int]) -> list[Slot]:
    """Return the messages of the mended history in order.

    Args:
        draft: all decisions.
        misplaced: results of server calls that have to move behind their call.
        rewritten: indices of messages in which an id or an argument changes.
    """
    arrivals = _Arrivals()
    for turn in draft.turns():
        if turn.calls:
            _gather(draft, turn, arrivals)
    for result in misplaced:
        _move(draft, result, arrivals)
        call = draft.transcript.calls[draft.match.owners[result.number]]
        arrivals.behind_part.setdefault((call.message, call.slot), []).append(result)
    for number, cause in draft.made.items():
        call = draft.transcript.calls[number]
        if call.server:
            place = (call.message, call.slot)
            arrivals.behind_part.setdefault(place, []).append(Placeholder(call, cause))
    slots: list[Slot] = []
    for index, message in enumerate(draft.transcript.messages):
        slot = _keep(draft, index, message, arrivals, is_rewritten=index in rewritten)
        if slot is not None:
            if _needs_bridge(draft, slots, slot):
                text = USER_BRIDGE[draft.policy.language]
                slots.append(Slot(None, "user", (Note(text),)))
                draft.find("role_order", "bridged", index=index)
            slots.append(slot)
        slots.extend(_new_messages(draft, arrivals.behind_message.get(index, ()), rewritten))
    return slots


def keep_turns_apart(draft: Draft) -> None:
    """End a turn where a placeholder leaves because its real result comes in there.

    Else the messages of the model before and behind it would become one turn, and the result would
    seem to stand where it belongs.
    """
    messages = draft.transcript.messages
    for number, kind in draft.match.spares.items():
        if kind != "superseded_placeholder":
            continue
        index = draft.transcript.results[number].message - 1
        while index >= 0 and messages[index].role == draft.rules.result_role:
            index -= 1
        if index >= 0 and messages[index].role == "assistant":
            draft.cuts.add(index)


def cut_turns(draft: Draft) -> None:
    """End a turn behind its calls where their results come in and more of the turn stands behind.

    Results that already stand behind the whole turn keep it whole.
    """
    for turn in draft.turns():
        if len(turn.messages) == 1 or not turn.calls:
            continue
        if _has_open_calls(draft, turn):
            continue  # a call that still runs has to stay in the last turn
        last_call = turn.calls[-1].message
        placed, anchor = _in_place(draft, turn)
        if anchor is None and last_call != turn.messages[-1] and _arriving(draft, turn, placed):
            draft.cuts.add(last_call)


def _has_open_calls(draft: Draft, turn: Turn) -> bool:
    """Tell whether a call of a turn is left without a result."""
    return any(
        call.number not in draft.made and draft.result_of(call) is None for call in turn.calls
    )


def _in_place(draft: Draft, turn: Turn) -> tuple[set[int], tuple[int, int] | None]:
    """Return the results of a turn that stand where they belong, and where the last one stands."""
    if draft.rules.results_anywhere:
        return {
            result.number
            for call in turn.calls
            if (result := draft.result_of(call)) is not None and result.message > call.message
        }, None
    own = {call.number for call in turn.calls}
    placed: set[int] = set()
    anchor: tuple[int, int] | None = None
    for index in turn.followers:
        has_own = has_other = False
        for part in draft.transcript.messages[index].parts:
            if draft.is_gone(part):
                continue
            if is_other_content(draft, part):
                if draft.rules.results_lead:
                    return placed, anchor
                has_other = True
            elif isinstance(part, Result) and draft.match.owners.get(part.number) in own:
                placed.add(part.number)
                anchor = (index, part.slot)
                has_own = True
        if draft.rules.results_alone and has_other and not has_own:
            break  # what comes in behind it is too late
    return placed, anchor


def _arriving(draft: Draft, turn: Turn, placed: set[int]) -> list[NewPart]:
    """Return the results that have to come in behind a turn, real ones first."""
    results = [draft.result_of(call) for call in turn.calls]
    moved: list[NewPart] = [
        result for result in results if result is not None and result.number not in placed
    ]
    return moved + [
        Placeholder(call, draft.made[call.number])
        for call in turn.calls
        if call.number in draft.made
    ]


def _gather(draft: Draft, turn: Turn, arrivals: _Arrivals) -> None:
    """Note what comes in behind a turn, and the place it comes to."""
    placed, anchor = _in_place(draft, turn)
    arriving = _arriving(draft, turn, placed)
    for part in arriving:
        if isinstance(part, Result):
            _move(draft, part, arrivals)
    if not arriving:
        return
    if draft.rules.results_anywhere:
        # Behind the last call of the run: calls that share one reasoning stay together. Where one of
        # them still runs, behind all that the model said: it is to stay in the last turn.
        last = turn.messages[-1] if _has_open_calls(draft, turn) else turn.calls[-1].message
        arrivals.behind_message[last] = [[part] for part in arriving]
    elif not draft.rules.patch_result_turns:
        behind = anchor[0] if anchor is not None else turn.messages[-1]
        arrivals.behind_message[behind] = [[part] for part in arriving]
    elif anchor is not None:
        arrivals.behind_part[anchor] = arriving
    elif turn.followers and not draft.rules.results_alone:
        arrivals.behind_part[turn.followers[0], _FRONT] = arriving
    else:
        arrivals.behind_message[turn.messages[-1]] = [arriving]


def _move(draft: Draft, result: Result, arrivals: _Arrivals) -> None:
    call = draft.transcript.calls[draft.match.owners[result.number]]
    arrivals.moved.add(result.number)
    draft.find("misplaced_result", "moved", call=call, result=result)


def _keep(
    draft: Draft, index: int, message: Message, arrivals: _Arrivals, *, is_rewritten: bool
) -> Slot | None:
    """Return what is left of a message and what comes into it; None when nothing is."""
    is_whole = True
    parts: list[NewPart] = []
    if arrivals.behind_part:
        parts.extend(arrivals.behind_part.get((index, _FRONT), ()))
        is_whole = not parts
    for part in message.parts:
        if draft.is_gone(part) or (isinstance(part, Result) and part.number in arrivals.moved):
            is_whole = False
        else:
            parts.append(part)
        if arrivals.behind_part:
            arriving = arrivals.behind_part.get((index, part.slot))
            if arriving:
                parts.extend(arriving)
                is_whole = False
    if not is_whole and all(map(is_mark, parts)):
        parts = []
    if not parts and (message.parts or message.empty or index in draft.empty):
        return _stub(draft, index, message)
    if is_whole and not is_rewritten and not message.has_empty_call_list:
        return Slot(index, message.role, None)
    return Slot(index, message.role, parts)


def _stub(draft: Draft, index: int, message: Message) -> Slot | None:
    """Keep an emptied head as a short text, where the format wants the user to speak first."""
    is_head = index == 0 and message.role == "user"
    if not is_head or not draft.rules.stubs_head or draft.keeps_server_state:
        return None
    draft.find("bad_first_turn", "stubbed", index=index)
    return Slot(index, message.role, (Note(HEAD_STUB[draft.policy.language]),))


def _needs_bridge(draft: Draft, slots: list[Slot], slot: Slot) -> bool:
    return (
        draft.rules.system_needs_user_turn
        and slot.role == "system"
        and bool(slots)
        and slots[-1].role == "assistant"
    )


def _new_messages(
    draft: Draft, groups: Sequence[Sequence[NewPart]], rewritten: set[int]
) -> Iterator[Slot]:
    role = draft.rules.result_role
    for parts in groups:
        first = parts[0]
        if len(parts) == 1 and isinstance(first, Result):
            home = draft.transcript.messages[first.message]
            if home.role == role and len(home.parts) == 1:
                kept = parts if first.message in rewritten else None
                yield Slot(first.message, role, kept, is_moved=True)
                continue
        yield Slot(None, role, parts)
