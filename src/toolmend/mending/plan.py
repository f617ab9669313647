"""Plan: all that is wrong with one history, and the messages that mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.mending.draft import Draft, is_placeholder
from toolmend.mending.findings import Finding, count
from toolmend.mending.ids import find_renames
from toolmend.mending.layout import Placeholder, Slot, cut_turns, lay_out
from toolmend.mending.match import match
from toolmend.mending.open_calls import decide_open_calls
from toolmend.mending.policy import OpenCall, Policy
from toolmend.mending.server_calls import decide_server_calls
from toolmend.mending.transcript import (
    Call,
    Content,
    ContentKind,
    Part,
    Result,
    Rules,
    Transcript,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a format writes.

    Attributes:
        findings: all faults, in the order of the messages.
        counts: the counters that follow from them.
        slots: the messages of the mended history in order.
        call_ids: number of a call -> its new id.
        result_ids: number of a result -> its new id.
        fixed_arguments: numbers of calls whose arguments become an empty object.
        policy: chooses the texts of placeholders.
    """

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    slots: list[Slot]
    call_ids: Mapping[int, str]
    result_ids: Mapping[int, str]
    fixed_arguments: frozenset[int]
    policy: Policy

    def id_of(self, call: Call) -> str:
        """Return the id that a call has in the mended history."""
        return self.call_ids.get(call.number, call.id or "")

    def text_of(self, placeholder: Placeholder) -> str:
        """Return the text of a made-up result."""
        call = placeholder.call
        return self.policy.text_for(
            OpenCall(
                name=call.name,
                id=self.id_of(call),
                arguments=call.arguments,
                cause=placeholder.cause,
            )
        )


def make_plan(
    transcript: Transcript, rules: Rules, policy: Policy, *, keeps_server_state: bool
) -> Plan:
    """Decide what to do about a history. Pure: the same input gives the same plan in any process."""
    empty = {index for index, message in enumerate(transcript.messages) if message.empty}
    draft = Draft(
        transcript=transcript,
        rules=rules,
        policy=policy,
        keeps_server_state=keeps_server_state,
        match=match(
            transcript,
            rules,
            empty,
            lambda result, call: is_placeholder(policy, result, call),
        ),
        empty=empty,
    )
    _judge_messages(draft)
    _judge_calls(draft)
    _judge_spares(draft)
    _drop_empty_end(draft)
    decide_open_calls(draft)
    _drop_copies_along(draft)
    cut_turns(draft)
    _strip_reasoning(draft)
    misplaced = decide_server_calls(draft)
    _drop_copies_along(draft)
    _strip_reasoning(draft, moving={result.number for result in misplaced})
    call_ids = {} if keeps_server_state else _rename(draft)
    result_ids = {} if keeps_server_state else _rename_results(draft, call_ids)
    fixed = _fix_arguments(draft)
    rewritten = {transcript.calls[number].message for number in (*call_ids, *fixed)}
    rewritten |= {transcript.results[number].message for number in result_ids}
    slots = lay_out(draft, misplaced, rewritten)
    return Plan(
        findings=tuple(sorted(draft.findings, key=lambda finding: finding.index)),
        counts=count(draft.findings, results_dropped_with_call=draft.results_dropped_with_call),
        slots=slots,
        call_ids=call_ids,
        result_ids=result_ids,
        fixed_arguments=frozenset(fixed),
        policy=policy,
    )


def _judge_messages(draft: Draft) -> None:
    stubs_head = draft.rules.stubs_head and not draft.keeps_server_state
    for index, message in enumerate(draft.transcript.messages):
        if message.role == "unknown":
            draft.find("unknown_role", "left", index=index)
        elif index in draft.empty:
            if not (stubs_head and index == 0 and message.role == "user"):
                draft.find("empty_message", "removed", index=index)
        elif message.has_empty_call_list:
            draft.find("empty_message", "fixed", index=index, detail="empty list of calls")
        blanks = [
            part
            for part in message.parts
            if isinstance(part, Content) and part.kind is ContentKind.BLANK
        ]
        if blanks:
            draft.gone_content.update((part.message, part.slot) for part in blanks)
            draft.find("empty_message", "fixed", index=index, detail="blank text")
    if stubs_head and 0 in draft.empty and draft.transcript.messages[0].role == "user":
        # It stays in its place as a stub, so it still divides turns.
        draft.empty.discard(0)


def _judge_calls(draft: Draft) -> None:
    for call in draft.transcript.calls:
        if call.number in draft.match.copies:
            if not draft.keeps_server_state:
                draft.gone_calls.add(call.number)
                draft.find("duplicate_call", "removed", call=call)
        elif not call.name:
            draft.remove_call(call)
            draft.find("nameless_call", "dropped", call=call)


def _drop_copies_along(draft: Draft) -> None:
    """Take out copies that were kept for the provider's sake, when the call they repeat was dropped."""
    for copy, original in draft.match.copies.items():
        if original in draft.gone_calls and copy not in draft.gone_calls:
            draft.gone_calls.add(copy)
            draft.find("duplicate_call", "removed", call=draft.transcript.calls[copy])


def _drop_empty_end(draft: Draft) -> None:
    """Take out an empty last message that may stand at the end, but not behind calls of its turn."""
    turns = draft.turns() if draft.rules.joins_turns else []
    last = len(draft.transcript.messages) - 1
    if not turns or turns[-1].messages[-1] != last or not turns[-1].calls:
        return
    if last not in draft.empty and not draft.transcript.messages[last].parts:
        draft.empty.add(last)
        draft.find("empty_message", "removed", index=last)


def _judge_spares(draft: Draft) -> None:
    for number, kind in draft.match.spares.items():
        result = draft.transcript.results[number]
        if draft.keeps_server_state:
            continue
        is_sendable = result.id is not None  # without an id no provider takes it
        if kind == "orphan_result" and draft.policy.orphans == "keep" and is_sendable:
            draft.find(kind, "left", result=result)
        else:
            draft.gone_results.add(number)
            draft.find(kind, "removed", result=result)


def _strip_reasoning(draft: Draft, moving: Collection[int] = ()) -> None:
    """Take out reasoning that ends an assistant turn which is not the last."""
    if not draft.rules.reasoning_needs_successor:
        return
    for turn in draft.turns():
        is_answered = any(
            call.number in draft.made or draft.result_of(call) is not None for call in turn.calls
        )
        if turn.successor is None and not turn.followers and not is_answered:
            continue
        for part in _trailing_reasoning(draft, turn.messages, moving):
            draft.gone_content.add((part.message, part.slot))
            draft.find("orphan_reasoning", "removed", index=part.message)


def _trailing_reasoning(
    draft: Draft, messages: list[int], moving: Collection[int]
) -> list[Content]:
    found: list[Content] = []
    for index in reversed(messages):
        for part in reversed(draft.transcript.messages[index].parts):
            if draft.is_gone(part) or _moves_away(draft, part, moving):
                continue
            if not isinstance(part, Content) or part.kind is not ContentKind.REASONING:
                return found
            found.append(part)
    return found


def _moves_away(draft: Draft, part: Part, moving: Collection[int]) -> bool:
    """Tell whether a part of an assistant message is a result that belongs somewhere else."""
    if not isinstance(part, Result):
        return False
    return part.number in moving or (not part.server and part.number in draft.match.owners)


def _rename(draft: Draft) -> dict[int, str]:
    turns = draft.turns()
    open_calls = {
        call.number
        for turn in turns
        for call in turn.calls
        if call.number not in draft.made and draft.result_of(call) is None
    }
    result_ids = [result.id for result in draft.transcript.results if result.id is not None]
    renames = find_renames(turns, draft.rules, open_calls=open_calls, result_ids=result_ids)
    for number, (kind, _) in renames.items():
        draft.find(kind, "renamed", call=draft.transcript.calls[number])
    return {number: new_id for number, (_, new_id) in renames.items()}


def _rename_results(draft: Draft, call_ids: dict[int, str]) -> dict[int, str]:
    renamed: dict[int, str] = {}
    for call in draft.transcript.calls:
        result = draft.result_of(call)
        if result is None or call.number in draft.gone_calls:
            continue
        wanted = call_ids.get(call.number, call.id)
        if wanted is not None and result.id != wanted:
            renamed[result.number] = wanted
            if call.number not in call_ids:
                draft.find("malformed_id", "renamed", call=call)
    return renamed


def _fix_arguments(draft: Draft) -> set[int]:
    fixed = {
        call.number
        for call in draft.transcript.calls
        if call.state != "fine" and call.is_fixable and call.number not in draft.gone_calls
    }
    for number in sorted(fixed):
        draft.find("invalid_arguments", "fixed", call=draft.transcript.calls[number])
    return fixed
