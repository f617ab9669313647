"""Plan: all that is wrong with one history, and the messages that mend it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolmend.mending.draft import Draft, is_placeholder
from toolmend.mending.findings import Cause, Finding, Kind, count
from toolmend.mending.ids import IdShape, find_renames
from toolmend.mending.layout import Placeholder, Slot, cut_turns, keep_turns_apart, lay_out
from toolmend.mending.match import match
from toolmend.mending.open_calls import decide_open_calls
from toolmend.mending.policy import OpenCall, Policy
from toolmend.mending.reasoning import strip_reasoning
from toolmend.mending.retype import drop_unanswerable, find_wrong_types
from toolmend.mending.server_calls import decide_server_calls
from toolmend.mending.shape import shape
from toolmend.mending.transcript import (
    Call,
    Content,
    ContentKind,
    Rules,
    Transcript,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


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
        stripped: numbers of calls whose block loses an id of its own.
        retyped: number of a result -> the call whose kind of result it becomes.
        policy: chooses the texts of placeholders.
        write_arguments: how arguments that are not as the format wants them are written.
    """

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    slots: list[Slot]
    call_ids: Mapping[int, str]
    result_ids: Mapping[int, str]
    fixed_arguments: frozenset[int]
    stripped: frozenset[int]
    retyped: Mapping[int, Call]
    policy: Policy
    write_arguments: Callable[[object], object]

    def id_of(self, call: Call) -> str:
        """Return the id that a call has in the mended history."""
        return self.call_ids.get(call.number, call.id or "")

    def text_of(self, placeholder: Placeholder) -> str:
        """Return the text of a made-up result."""
        call = placeholder.call
        arguments = call.arguments
        if call.number in self.fixed_arguments:
            arguments = self.write_arguments(arguments)  # as it will be read the next time
        return self.policy.text_for(
            OpenCall(
                name=call.name,
                id=self.id_of(call),
                arguments=arguments,
                cause=placeholder.cause,
            )
        )


def make_plan(
    transcript: Transcript,
    rules: Rules,
    policy: Policy,
    causes: Mapping[str, Cause] = MappingProxyType({}),
    other_ids: Collection[str | None] = (),
) -> Plan:
    """Decide what to do about a history. Pure: the same input gives the same plan in any process.

    Args:
        transcript: the history.
        rules: what its format asks.
        policy: what the caller asks.
        causes: ids of calls and why they have no result, as far as that is known from elsewhere.
        other_ids: ids that new ones must not meet, apart from those in the transcript.
    """
    keeps_server_state = policy.server_state
    if keeps_server_state is None:
        keeps_server_state = transcript.refers_to_server
    wants_content = policy.profile == "dashscope"
    empty = {
        index
        for index, message in enumerate(transcript.messages)
        if message.empty or (wants_content and message.is_blank)
    }
    draft = Draft(
        transcript=transcript,
        rules=rules,
        policy=policy,
        keeps_server_state=keeps_server_state,
        causes=causes,
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
    keep_turns_apart(draft)
    drop_unanswerable(draft)
    _drop_empty_end(draft)
    decide_open_calls(draft)
    _drop_copies_along(draft)
    cut_turns(draft)
    strip_reasoning(draft)
    misplaced = decide_server_calls(draft)
    _drop_copies_along(draft)
    strip_reasoning(draft, moving={result.number for result in misplaced})
    call_ids = {} if keeps_server_state else _rename(draft, other_ids)
    result_ids = {} if keeps_server_state else _rename_results(draft, call_ids)
    fixed = _fix_arguments(draft)
    stripped = frozenset() if keeps_server_state else _strip_item_ids(draft, call_ids)
    retyped = find_wrong_types(draft)
    rewritten = {transcript.calls[number].message for number in (*call_ids, *fixed, *stripped)}
    rewritten |= {transcript.results[number].message for number in (*result_ids, *retyped)}
    slots = shape(draft, lay_out(draft, misplaced, rewritten))
    return Plan(
        findings=tuple(sorted(draft.findings, key=lambda finding: finding.index)),
        counts=count(draft.findings, results_dropped_with_call=draft.results_dropped_with_call),
        slots=slots,
        call_ids=call_ids,
        result_ids=result_ids,
        fixed_arguments=frozenset(fixed),
        stripped=stripped,
        retyped=retyped,
        policy=policy,
        write_arguments=rules.write_arguments,
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


def _rename(draft: Draft, other_ids: Collection[str | None]) -> dict[int, str]:
    turns = draft.turns()
    open_calls = {
        call.number
        for turn in turns
        for call in turn.calls
        if call.number not in draft.made and draft.result_of(call) is None
    }
    ids = [result.id for result in draft.transcript.results if result.id is not None]
    shape = IdShape.of(draft.rules, draft.policy)
    renames = find_renames(
        turns, draft.rules, shape, open_calls=open_calls, other_ids=[*ids, *other_ids]
    )
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
                kind: Kind = "missing_id" if result.id is None else "malformed_id"
                draft.find(kind, "renamed", call=call)
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


def _strip_item_ids(draft: Draft, call_ids: Mapping[int, str]) -> frozenset[int]:
    stripped = frozenset(
        call.number
        for call in draft.transcript.calls
        if call.has_bad_item_id and call.number not in draft.gone_calls
    )
    for number in sorted(stripped - call_ids.keys()):  # else it is counted already
        draft.find("malformed_id", "renamed", call=draft.transcript.calls[number])
    return stripped
