"""Segments: of a long broken history only the parts that are not plainly legal go the full way.

A segment begins where the user speaks and answers nothing, and where the model speaks on behind results.
Most segments of a history are legal by themselves; of a run of those, what stands at its two ends stands for
all when the rest is planned. What comes of it is what the full way makes of the whole history; the tests
compare the two.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from toolmend.errors import HistoryError
from toolmend.mending.transcript import Call, Content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.formats import Format
    from toolmend.formats.batches import CallFacts
    from toolmend.mending.layout import Slot
    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy

MIN_LENGTH: Final = 40
"""Shorter histories are not worth the division."""


_Key = str | tuple[str, str]


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
        pairs: those of them that are cut off from the message behind, with which they stood together.
        other_ids: ids in what is left out, which new ids must not meet.
    """

    messages: list[object] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    skipped: dict[int, int] = field(default_factory=dict)
    pairs: set[int] = field(default_factory=set)
    other_ids: set[str] = field(default_factory=set)

    def can_expand(self, plan: Plan) -> bool:
        """Tell whether the messages around what is left out stand where they stood."""
        ends = [_last_source(slot) for slot in plan.slots]
        whole = {
            end
            for slot, end in zip(plan.slots, ends, strict=True)
            if slot.parts is None or end != slot.source
        }
        follows = {
            end: behind.source
            for end, behind in zip(ends, plan.slots[1:], strict=False)
            if not behind.is_moved
        }
        return all(
            follows.get(index) == index + 1 if index in self.pairs else index in whole
            for index in self.skipped
        )

    def behind(self, slot: Slot) -> tuple[int, int] | None:
        """Return which messages are left out behind a message of the mended excerpt: from where, how many."""
        last = _last_source(slot)
        if last is None or last not in self.skipped:
            return None
        return self.sources[last] + 1, self.skipped[last]

    def take(self, messages: Sequence[object], start: int, end: int) -> None:
        """Add a part of the history."""
        self.messages.extend(messages[start:end])
        self.sources.extend(range(start, end))

    def skip(self, count: int) -> None:
        """Leave messages out behind what was taken last."""
        if count:
            self.skipped[len(self.messages) - 1] = count


def _last_source(slot: Slot) -> int | None:
    """Return the index of the message that a mended one ends as; None for one that came in or moved.

    That is where it was made of, or the last of those that were joined to it, which end in other content.
    """
    if slot.source is None or slot.is_moved:
        return None
    last = slot.parts[-1] if slot.parts else None
    return last.message if isinstance(last, Content) else slot.source


def excerpt(messages: Sequence[object], wire: Format, policy: Policy) -> Excerpt | None:
    """Return what of a history has to be looked at; None when all of it has to be."""
    if len(messages) < MIN_LENGTH or not _is_plain(policy):
        return None
    calls = [wire.calls_of(message) for message in messages]
    kinds = [_kind_of(message, found, wire) for message, found in zip(messages, calls, strict=True)]
    starts = [
        index
        for index, (before, kind) in enumerate(pairwise(kinds), 1)
        if kind is _USER or (before is _RESULT and kind is not _RESULT)
    ]
    opener = None if wire.RULES.head == "any" else _first_of_user(messages, kinds)
    led = (_CALLS,) if wire.RULES.head == "no_calls" else (_CALLS, _ANSWER)
    segments = [
        _Segment(
            start,
            end,
            wire.is_legal(
                _alone(messages, start, end, kinds, opener if kinds[start] in led else None), policy
            ),
        )
        for start, end in pairwise([0, *starts, len(messages)])
    ]
    keys = [
        {_key_of(call, wire) for found in calls[start:end] if found for call in found}
        for start, end, _ in segments
    ]
    if len({type(key) for found in keys for key in found}) > 1 or any(None in ids for ids in keys):
        return None  # what has no id is told apart by its place among all others
    needed = _needed(messages, segments, keys, wire)
    if needed is None or len(needed) == len(segments):
        return None
    if kinds[0] is not _USER:
        needed.add(0)  # what stands first may need what stands behind it
    return _without_the_rest(messages, segments, keys, needed, kinds)


class _Kind(enum.Enum):
    """What a message is to its neighbours."""

    USER = "the user speaks and answers nothing"
    ANSWER = "the model speaks and calls nothing"
    CALLS = "the model calls"
    RESULT = "results, or whatever else"


_USER, _ANSWER, _CALLS, _RESULT = _Kind


def _kind_of(message: object, calls: Sequence[object] | None, wire: Format) -> _Kind:
    if calls is not None:
        return _CALLS if calls else _ANSWER
    return _USER if wire.begins(message) else _RESULT


def _key_of(call: CallFacts, wire: Format) -> _Key | None:
    """Return by what a call and its result find each other: the id, or the name where ids are optional."""
    if isinstance(call.id, str):
        return call.id
    return ("name", call.name) if wire.RULES.ids_optional and isinstance(call.name, str) else None


def _first_of_user(messages: Sequence[object], kinds: Sequence[_Kind]) -> object:
    """Return the first message in which the user speaks and answers nothing, None without one."""
    if _USER not in kinds:
        return None
    return messages[kinds.index(_USER)]


def _alone(
    messages: Sequence[object], start: int, end: int, kinds: Sequence[_Kind], opener: object
) -> Sequence[object]:
    """Return a segment as a history of its own, that is legal if the segment is where it stands.

    Args:
        messages: the whole history.
        start: where the segment begins.
        end: where it ends.
        kinds: what each message is.
        opener: what the user says before it, where the model must not speak first.
    """
    # With what the user says behind it: some things are legal at the end of a history alone.
    is_followed = end < len(messages) and kinds[end] is _USER
    part = messages[start : end + is_followed]
    return part if opener is None else [opener, *part]


def _is_plain(policy: Policy) -> bool:
    return (
        policy.window is None
        and policy.profile is None
        and not policy.asks_more
        and not policy.server_state
    )


def _needed(
    messages: Sequence[object],
    segments: Sequence[_Segment],
    keys: Sequence[set[_Key | None]],
    wire: Format,
) -> set[int] | None:
    """Return the numbers of the segments that belong in the excerpt; None when that cannot be told."""
    broken = {number for number, segment in enumerate(segments) if not segment.is_legal}
    uses: dict[_Key | None, list[int]] = {}
    for number, ids in enumerate(keys):
        for key in ids:
            uses.setdefault(key, []).append(number)
            if key != (stripped := _stripped(key)):
                uses.setdefault(stripped, []).append(number)
    if wire.RULES.ids_unique_in_request:
        broken |= {number for numbers in uses.values() for number in numbers[1:]}
    needed = set(broken)
    parts: list[object] = []
    homes: list[int] = []  # of each of them: the number of its segment
    for number in sorted(broken):
        start, end, _ = segments[number]
        parts.extend(messages[start:end])
        homes.extend([number] * (end - start))
    try:
        transcript = wire.read(parts)
    except HistoryError:
        return None  # told with its place in the whole history
    by_name = any(isinstance(key, tuple) for key in uses)
    asked: set[tuple[_Key, int]] = set()
    seen: set[tuple[_Key, int]] = set()
    for part in (part for message in transcript.messages for part in message.parts):
        if isinstance(part, Content):
            continue
        if (part.id is None) is not by_name:
            return None
        use = cast("_Key", part.key if part.id is None else part.id), homes[part.message]
        if isinstance(part, Call):
            asked.add(use)
        # A result behind a call of its own segment is of no concern to others.
        if wire.RULES.ids_unique_in_request or use not in asked:
            seen.add(use)
    for key, number in seen:
        needed.update(_neighbours(uses.get(key, ()), number))
        needed.update(_neighbours(uses.get(_stripped(key), ()), number))
    return needed


def _stripped(key: _Key | None) -> _Key | None:
    return key.strip() if isinstance(key, str) else key


def _neighbours(numbers: Sequence[int], number: int) -> set[int]:
    """Return the nearest segments before and behind one, of those where an id is used."""
    at = bisect_left(numbers, number)
    behind = at + (at < len(numbers) and numbers[at] == number)
    return {*numbers[max(0, at - 1) : at], *numbers[behind : behind + 1]}


def _without_the_rest(
    messages: Sequence[object],
    segments: Sequence[_Segment],
    keys: Sequence[set[_Key | None]],
    needed: set[int],
    kinds: Sequence[_Kind],
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
            found.other_ids.update(key for key in keys[number] if isinstance(key, str))
            number += 1
        _take_ends(found, messages, segments[first:number], kinds)
    return found


def _take_ends(
    found: Excerpt, messages: Sequence[object], run: Sequence[_Segment], kinds: Sequence[_Kind]
) -> None:
    """Add what stands for a run of legal segments: what their neighbours can see of it."""
    (start, first_end, _), (last, end, _) = run[0], run[-1]
    if kinds[start] is _USER:
        first_end = start + 1
    elif kinds[first_end - 1] is kinds[end - 1] is _RESULT:
        # It begins and ends as the whole run does.
        found.take(messages, start, first_end)
        found.skip(end - first_end)
        return
    if kinds[end - 1] is _ANSWER:
        last = end - 1  # nothing before it belongs to it
    last = max(last, first_end)
    found.take(messages, start, first_end)
    if last > first_end:
        found.pairs.add(len(found.messages) - 1)
    found.skip(last - first_end)
    found.take(messages, last, end)
