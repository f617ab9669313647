"""Window: where the part of a history begins that is looked at, when only its end is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.mending.draft import is_placeholder
from toolmend.mending.match import match
from toolmend.mending.transcript import Result
from toolmend.mending.turns import find_turns

if TYPE_CHECKING:
    from toolmend.mending.policy import Policy
    from toolmend.mending.transcript import Rules, Transcript


def window_start(transcript: Transcript, rules: Rules, policy: Policy) -> int:
    """Return the index of the first message to look at; 0 when all are.

    The start moves back until no batch is divided and no result behind it answers a call before it.
    """
    messages = transcript.messages
    if policy.window is None or policy.window >= len(messages):
        return 0
    empty = {index for index, message in enumerate(messages) if message.empty}
    found = match(
        transcript, rules, empty, lambda result, call: is_placeholder(policy, result, call)
    )
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
    start = len(messages) - policy.window
    seen = len(messages)
    while seen > start:
        seen -= 1
        wanted = home.get(seen, seen)
        for part in messages[seen].parts:
            if isinstance(part, Result) and part.number in found.owners:
                call = transcript.calls[found.owners[part.number]]
                wanted = min(wanted, home.get(call.message, call.message))
        start = min(start, wanted)
    return start
