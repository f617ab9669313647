"""Window: where the part of a history begins that is looked at, when only its end is."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from toolmend.mending.transcript import Call, Result
from toolmend.mending.turns import find_turns

if TYPE_CHECKING:
    from toolmend.mending.match import Match
    from toolmend.mending.transcript import Part, Rules, Transcript


def window_start(
    transcript: Transcript, rules: Rules, found: Match, empty: set[int], size: int
) -> int:
    """Return the index of the first message to look at; 0 when all are.

    The start moves back until no batch is divided, and no call is parted from its result.

    Args:
        transcript: the history.
        rules: what its format asks.
        found: who answers whom in it.
        empty: indices of messages with nothing in them.
        size: how many messages at the end are looked at in any case.
    """
    messages = transcript.messages
    home: dict[int, int] = {}  # index of a message -> first message of the turn it belongs to
    for turn in find_turns(transcript, rules, gone=empty):
        first = turn.messages[0]
        home.update((index, first) for index in turn.messages)
        own = {call.number for call in turn.calls}
        for index in turn.followers:
            if any(
                isinstance(part, Result) and found.owners.get(part.number) in own
                for part in messages[index].parts
            ):
                home[index] = first
    if rules.alternates:
        there = (index for index in range(len(messages)) if index not in empty)
        for before, behind in pairwise(there):
            if messages[before].role == messages[behind].role == rules.result_role:
                home.setdefault(behind, home.get(before, before))  # they become one
    start = max(len(messages) - size, 0)
    seen = len(messages)
    while seen > start:
        seen -= 1
        places = [seen, *(_partner(transcript, found, part) for part in messages[seen].parts)]
        start = min(start, *(home.get(place, place) for place in places if place is not None))
    return start


def _partner(transcript: Transcript, found: Match, part: Part) -> int | None:
    """Return where the call of a result stands, or the result of a call; None without one."""
    if isinstance(part, Result):
        owner = found.owners.get(part.number)
        return None if owner is None else transcript.calls[owner].message
    if isinstance(part, Call):
        answer = found.answers.get(part.number)
        return None if answer is None else transcript.results[answer].message
    return None
