"""Open calls: why a call has no result, and whether it is patched, dropped or left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.mending.draft import Draft, has_other_content, open_call
from toolmend.mending.transcript import Call, Result

if TYPE_CHECKING:
    from toolmend.mending.findings import Cause, Kind
    from toolmend.mending.turns import Turn


def decide_open_calls(draft: Draft) -> None:
    """Decide about every client call that has no result."""
    turns = draft.turns()
    for turn in turns:
        open_calls = [call for call in turn.calls if _is_open(draft, turn, call)]
        if not open_calls:
            continue
        is_trailing = _is_trailing(draft, turn)
        has_real_result = any(_has_real_result(draft, call) for call in turn.calls)
        # Last of all: whether its batch stays is known when the others are decided.
        open_calls.sort(key=lambda call: call.signed)
        for call in open_calls:
            cause = _cause(draft, call, is_trailing=is_trailing, has_real_result=has_real_result)
            is_running = draft.policy.trailing == "leave" or cause == "in_flight"
            is_left = is_trailing and is_running
            has_batch = call.signed and any(
                other is not call and other.number not in draft.gone_calls for other in turn.calls
            )
            if has_batch:
                draft.kept.add(call.number)
            if draft.result_of(call) is not None and (is_left or not _drops(draft, call, cause)):
                continue  # its stored placeholder moves to its place
            if is_left:
                draft.find("pending_call", "left", call=call, cause=cause)
            else:
                patch_or_drop(draft, call, cause)


def patch_or_drop(draft: Draft, call: Call, cause: Cause) -> None:
    """Put a placeholder in for an open call or take the call out, as policy and format allow."""
    if not call.answerable:
        draft.remove_call(call)
        # Only a format without any answer for the family calls it unanswerable; a server tool whose
        # error block is unknown is an open call like any other.
        kind: Kind = "dangling_call" if call.server else "unanswerable_call"
        draft.find(kind, "dropped", call=call, cause=cause)
    elif _drops(draft, call, cause):
        draft.remove_call(call)
        draft.find("dangling_call", "dropped", call=call, cause=cause)
    else:
        is_told = draft.policy.text_from_record
        draft.made[call.number] = draft.known_cause(call, cause) if is_told else cause
        draft.find("dangling_call", "patched", call=call, cause=cause)


def _is_open(draft: Draft, turn: Turn, call: Call) -> bool:
    """Tell whether a call has no result, or none but a placeholder in a wrong place that may go."""
    if call.number in draft.match.copies:
        return False
    result = draft.result_of(call)
    if result is None:
        return True
    if draft.policy.dangling == "patch" or _is_in_place(draft, turn, call, result):
        return False
    return draft.is_placeholder(result, call)


def _is_in_place(draft: Draft, turn: Turn, call: Call, result: Result) -> bool:
    if draft.rules.results_anywhere:
        return result.message > call.message
    followers = turn.followers
    return bool(followers) and followers[0] <= result.message <= followers[-1]


def _drops(draft: Draft, call: Call, cause: Cause) -> bool:
    """Tell whether an open call may be dropped and the policy wants it."""
    return (
        cause != "in_flight"
        and not call.pinned
        and call.number not in draft.kept
        and draft.policy.choose(open_call(call, cause)) == "drop"
    )


def _has_real_result(draft: Draft, call: Call) -> bool:
    result = draft.result_of(call)
    return result is not None and not draft.is_placeholder(result, call)


def _is_trailing(draft: Draft, turn: Turn) -> bool:
    """Tell whether nothing but the turn's own results stands behind it."""
    if turn.successor is not None:
        return False
    own = {call.number for call in turn.calls}
    for index in turn.followers:
        if has_other_content(draft, index):
            return False
        for part in draft.transcript.messages[index].parts:
            if not isinstance(part, Result) or part.number in draft.gone_results:
                continue
            if draft.match.owners.get(part.number) not in own:
                return False
    return True


def _cause(draft: Draft, call: Call, *, is_trailing: bool, has_real_result: bool) -> Cause:
    if draft.policy.is_in_flight(call.id):
        return "in_flight"
    if call.state == "unreadable":
        return "invalid_arguments"
    if has_real_result:
        return "partial_batch"
    return "end_of_history" if is_trailing else "interrupted"
