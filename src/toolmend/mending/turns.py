"""Turns: which assistant messages speak together, and which messages can hold their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolmend.mending.transcript import Call, Rules, Transcript

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(slots=True, kw_only=True)
class Turn:
    """One assistant turn.

    Attributes:
        position: number among the turns.
        messages: indices of its messages.
        followers: indices of the unbroken run of messages behind it that can hold its results.
        calls: the client calls in it that are still there, in wire order.
        server_calls: the server-run calls in it that are still there.
        successor: index of the first message behind its followers, None at the end.
    """

    position: int
    messages: list[int]
    followers: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    server_calls: list[Call] = field(default_factory=list)
    successor: int | None = None


def find_turns(
    transcript: Transcript,
    rules: Rules,
    *,
    gone: Collection[int] = (),
    dropped: Collection[int] = (),
    cuts: Collection[int] = (),
) -> list[Turn]:
    """Return the assistant turns of a transcript.

    Args:
        transcript: the history.
        rules: what its format asks.
        gone: indices of messages that are not there any more.
        dropped: numbers of calls that are not there any more.
        cuts: indices of assistant messages behind which results will be put, so that a turn ends there.
    """
    turns: list[Turn] = []
    turn: Turn | None = None
    is_behind = False  # the run of followers of `turn` has begun
    for index, message in enumerate(transcript.messages):
        if index in gone:
            continue
        if message.role == "assistant":
            if (
                turn is not None
                and not is_behind
                and rules.joins_turns
                and turn.messages[-1] not in cuts
            ):
                turn.messages.append(index)
            else:
                if turn is not None:
                    turn.successor = index
                turn = Turn(position=len(turns), messages=[index])
                turns.append(turn)
            is_behind = False
            for part in message.parts:
                if isinstance(part, Call) and part.number not in dropped:
                    (turn.server_calls if part.server else turn.calls).append(part)
        elif turn is not None:
            if message.role == rules.result_role:
                turn.followers.append(index)
                is_behind = True
            else:
                turn.successor = index
                turn = None
    return turns
