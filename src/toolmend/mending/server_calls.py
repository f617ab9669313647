"""Server calls: calls the provider runs itself, answered inside the assistant turn.

A server call may stand open in two places. Beside client calls whose next turn holds nothing but
results it runs on this very request (it is deferred), and its result may lead a later assistant turn;
at the very end of the history it is paused. Anywhere else it is a dangling call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.mending.draft import Draft, has_other_content
from toolmend.mending.open_calls import patch_or_drop

if TYPE_CHECKING:
    from toolmend.mending.findings import Cause
    from toolmend.mending.transcript import Call, Result
    from toolmend.mending.turns import Turn


def decide_server_calls(draft: Draft) -> list[Result]:
    """Decide about server calls; return the results that have to move behind their call."""
    if not any(call.server for call in draft.transcript.calls):
        return []
    turns = draft.turns()
    reach, runs_on_request = _deferral(draft, turns)
    turn_of = {index: turn.position for turn in turns for index in turn.messages}
    misplaced: list[Result] = []
    for turn in turns:
        for call in turn.server_calls:
            if call.number in draft.match.copies:
                continue
            result = draft.result_of(call)
            if result is not None:
                home = turn_of.get(result.message, -1)
                in_turn = home == turn.position and _is_behind(result, call)
                if not in_turn and not turn.position < home <= reach[turn.position]:
                    misplaced.append(result)
            elif not runs_on_request[turn.position] and not _is_paused(draft, turn):
                patch_or_drop(draft, call, _cause(draft, call))
    return misplaced


def _cause(draft: Draft, call: Call) -> Cause:
    return "in_flight" if draft.policy.is_in_flight(call.id) else "server_tool"


def _is_behind(result: Result, call: Call) -> bool:
    return (result.message, result.slot) > (call.message, call.slot)


def _is_paused(draft: Draft, turn: Turn) -> bool:
    """Tell whether the turn is the last one and waits for nothing but its own server calls."""
    if turn.successor is not None or turn.followers:
        return False
    return draft.policy.trailing == "leave" or not turn.calls


def _deferral(draft: Draft, turns: list[Turn]) -> tuple[list[int], list[bool]]:
    """Return how far each turn defers.

    The first list holds the last turn in which a server call of this turn may be answered; the second
    tells whether it may stay open up to the end of the history.
    """
    reach = [turn.position for turn in turns]
    open_to_end = [False] * len(turns)
    gone = draft.gone_messages()
    for turn in reversed(turns):
        is_passed_on = bool(turn.calls) and not any(
            has_other_content(draft, index) for index in turn.followers
        )
        if not is_passed_on:
            continue
        successor = _behind_systems(draft, turn.successor, gone)
        if successor is None:
            open_to_end[turn.position] = True
        elif draft.transcript.messages[successor].role == "assistant":
            reach[turn.position] = reach[turn.position + 1]
            open_to_end[turn.position] = open_to_end[turn.position + 1]
    return reach, open_to_end


def _behind_systems(draft: Draft, index: int | None, gone: set[int]) -> int | None:
    """Return the index of the first message from here on that is no system message."""
    messages = draft.transcript.messages
    while index is not None and (messages[index].role == "system" or index in gone):
        index = index + 1 if index + 1 < len(messages) else None
    return index
