"""Batches: the calls of the latest assistant turn, read from the end of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class CallFacts(NamedTuple):
    """What one call block says; nothing of it is checked."""

    name: object
    id: object
    arguments: object


class LatestBatch(NamedTuple):
    """The calls of the latest assistant turn.

    Attributes:
        start: index of the first message of the turn.
        end: index behind its last message.
        calls: its calls in order, each with the index of its message.
        before: the message right before the turn, None at the head.
    """

    start: int
    end: int
    calls: tuple[tuple[int, CallFacts], ...]
    before: object


def latest_batch(
    messages: Sequence[object], calls_of: Callable[[object], list[CallFacts] | None]
) -> LatestBatch | None:
    """Return the batch of the latest assistant turn; None when that turn has no calls.

    Neighbouring assistant messages are one turn: an application that stores a batch in pieces, or
    writes an apology behind it, still shows it as the latest. Older batches are not looked for.
    """
    end = len(messages)
    while end:
        calls = calls_of(messages[end - 1])
        if calls is not None:
            break
        end -= 1
    else:
        return None
    start = end
    found: list[tuple[int, CallFacts]] = []
    while start:
        calls = calls_of(messages[start - 1])
        if calls is None:
            break
        start -= 1
        found[:0] = [(start, call) for call in calls]
    if not found:
        return None
    return LatestBatch(start, end, tuple(found), messages[start - 1] if start else None)
