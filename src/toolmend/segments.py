"""Segments: of a long broken history only the parts that are not plainly legal go the full way.

A segment begins where the user speaks and answers nothing. Most segments of a history are legal by
themselves; of a run of those, the first and the last message stand for all when the rest is planned. What
comes of it is what the full way makes of the whole history; the tests compare the two.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from toolmend.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolmend.formats import Format
    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

MIN_LENGTH: Final = 40
"""Shorter histories are not worth the division."""


class _Segment(NamedTuple):
    start: int
    end: int
    is_legal: bool


@dataclass(slots=True)
class Excerpt:
    """The messages of a history that have to be looked at, and what stands between them.

    Attributes:
        messages: the excerpt.
        sources: where each of them stands in the whole history.
        skipped: index in the excerpt -> how many messages are left out behind it.
        other_ids: ids in what is left out, which new ids must not meet.
    """

    messages: list[object] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    skipped: dict[int, int] = field(default_factory=dict)
    other_ids: set[str] = field(default_factory=set)

    def can_expand(self, plan: Plan) -> bool:
        """Tell whether the messages around what is left out still stand side by side."""
        follows = {
            before.source: behind.source
            for before, behind in pairwise(plan.slots)
            if not before.is_moved and not behind.is_moved
        }
        return all(follows.get(index) == index + 1 for index in self.skipped)

    def take(self, messages: Sequence[object], start: int, end: int) -> None:
        """Add a part of the history."""
        self.messages.extend(messages[start:end])
        self.sources.extend(range(start, end))


def excerpt(messages: Sequence[object], wire: Format, policy: Policy) -> Excerpt | None:
    """Return what of a history has to be looked at; None when all of it has to be."""
    if len(messages) < MIN_LENGTH or not _is_plain(policy):
        return None
    starts = [index for index, message in enumerate(messages) if index and wire.begins(message)]
    # With the message behind it: some things are legal at the end of a history alone.
    segments = [
        _Segment(start, end, wire.is_legal(messages[start : end + 1], policy))
        for start, end in pairwise([0, *starts, len(messages)])
    ]
    keys = [_ids_of_calls(messages[start:end], wire) for start, end, _ in segments]
    if any(None in ids for ids in keys):
        return None  # what has no id is told apart by its place among all others
    needed = _needed(messages, segments, keys, wire)
    if needed is None or len(needed) == len(segments):
        return None
    return _without_the_rest(messages, segments, keys, needed, wire)


def _is_plain(policy: Policy) -> bool:
    return (
        policy.dangling == "patch"
        and policy.window is None
        and policy.profile is None
        and not policy.asks_more
        and not policy.server_state
    )


def _ids_of_calls(messages: Iterable[object], wire: Format) -> set[object]:
    found: set[object] = set()
    for message in messages:
        for call in wire.calls_of(message) or ():
            found.add(call.id if isinstance(call.id, str) else None)
    return found


def _needed(
    messages: Sequence[object],
    segments: Sequence[_Segment],
    keys: Sequence[set[object]],
    wire: Format,
) -> set[int] | None:
    """Return the numbers of the segments that belong in the excerpt; None when that cannot be told."""
    broken = {number for number, segment in enumerate(segments) if not segment.is_legal}
    uses: dict[object, list[int]] = {}
    for number, ids in enumerate(keys):
        for call_id in ids:
            uses.setdefault(call_id, []).append(number)
    if wire.RULES.ids_unique_in_request:
        broken |= {number for numbers in uses.values() for number in numbers[1:]}
    needed = set(broken)
    if not wire.begins(messages[0]):
        needed.add(0)  # what stands first may need what stands behind it
    for number in broken:
        start, end, _ = segments[number]
        try:
            transcript = wire.read(messages[start:end])
        except HistoryError:
            return None  # told with its place in the whole history
        ids = {call.id for call in transcript.calls}
        ids |= {result.id for result in transcript.results}
        for call_id in ids:
            if not isinstance(call_id, str):
                return None
            needed.update(_neighbours(uses.get(call_id, ()), number))
            needed.update(_neighbours(uses.get(call_id.strip(), ()), number))
    return needed


def _neighbours(numbers: Sequence[int], number: int) -> set[int]:
    """Return the nearest segments before and behind one, of those where an id is used."""
    at = bisect_left(numbers, number)
    behind = at + (at < len(numbers) and numbers[at] == number)
    return {*numbers[max(0, at - 1) : at], *numbers[behind : behind + 1]}


def _without_the_rest(
    messages: Sequence[object],
    segments: Sequence[_Segment],
    keys: Sequence[set[object]],
    needed: set[int],
    wire: Format,
) -> Excerpt:
    found = Excerpt()
    number = 0
    while number < len(segments):
        if number in needed:
            found.take(messages, *segments[number][:2])
            number += 1
            continue
        first = number
        while number < len(segments) and number not in needed:
            found.other_ids.update(str(call_id) for call_id in keys[number])
            number += 1
        start, (last, end, _) = segments[first].start, segments[number - 1]
        if wire.calls_of(messages[end - 1]) == []:
            last = end - 1  # an answer without calls: nothing before it belongs to it
        if last > start + 1:
            found.take(messages, start, start + 1)
            found.skipped[len(found.messages) - 1] = last - start - 1
            found.take(messages, last, end)
        else:
            found.take(messages, start, end)
    return found
