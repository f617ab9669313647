"""Tails: the end of a history that a policy's window shows, read without the rest where that is safe."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from toolmend.errors import HistoryError
from toolmend.formats import openai_responses
from toolmend.formats.responses_items import refers_to_server
from toolmend.mending.draft import is_placeholder
from toolmend.mending.match import Match, match
from toolmend.mending.transcript import Call, Content, Result
from toolmend.mending.turns import find_turns
from toolmend.mending.window import window_start

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from toolmend.formats import Format
    from toolmend.mending.policy import Policy
    from toolmend.mending.transcript import Message, Role, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of a history.

    Attributes:
        start: where it begins in the whole history.
        transcript: the end, as if it were a history of its own.
        role_before: role of the last message before it that holds something, None without one.
        ids_before: ids of all calls and results before it; None when they were not read.
    """

    start: int
    transcript: Transcript
    role_before: Role | None
    ids_before: frozenset[str | None] | None = field(default=None)


class Tails:
    """The ends of one history, under one policy."""

    def __init__(self, messages: Sequence[object], wire: Format, policy: Policy) -> None:
        self._messages = messages
        self._wire = wire
        self._policy = policy

    def near(self, size: int) -> Tail | None:
        """Return the end, of at least so many messages, as ``far`` does; None where it takes all to tell.

        Nothing before a place where a turn begins matters when every result behind it has its call there.
        """
        at = self._boundary(len(self._messages) - size)
        if not at:
            return None
        try:
            # What ends a history may be empty, so the message before is not read alone.
            before = self._wire.read(self._messages[at - 1 : at + 1]).messages[0]
            seen = self._wire.read(self._messages[at:])
        except HistoryError:
            return None  # told with its place in the whole history
        found, empty = self._match(seen)
        if not self._stands_alone(before, seen, found, empty):
            return None
        first = window_start(seen, self._wire.RULES, found, empty, size)
        role = _last_role([before, *seen.messages[:first]])
        part = self._wire.read(self._messages[at + first :]) if first else seen
        part.refers_to_server = self._wire.NAME == openai_responses.NAME and refers_to_server(
            self._messages
        )
        return Tail(start=at + first, transcript=part, role_before=role)

    def far(self, size: int) -> Tail | None:
        """Return the end, of at least so many messages; None when that is all of it."""
        whole = self._whole
        start = window_start(whole, self._wire.RULES, *self._match_of_whole, size)
        if not start:
            return None
        part = self._wire.read(self._messages[start:])
        part.refers_to_server = whole.refers_to_server
        ids = {call.id for call in whole.calls if call.message < start}
        ids |= {result.id for result in whole.results if result.message < start}
        role = _last_role(whole.messages[:start])
        return Tail(start=start, transcript=part, role_before=role, ids_before=frozenset(ids))

    def opening(self, before: int) -> int:
        """Return the last place before an index where the user speaks and answers nothing, 0 without one."""
        places = range(before - 1, 0, -1)
        return next((at for at in places if self._wire.begins(self._messages[at])), 0)

    @cached_property
    def _whole(self) -> Transcript:
        return self._wire.read(self._messages)

    @cached_property
    def _match_of_whole(self) -> tuple[Match, set[int]]:
        return self._match(self._whole)

    def _match(self, transcript: Transcript) -> tuple[Match, set[int]]:
        """Return who answers whom, and the messages with nothing in them."""
        empty = {index for index, message in enumerate(transcript.messages) if message.empty}
        found = match(
            transcript,
            self._wire.RULES,
            empty,
            lambda result, call: is_placeholder(self._policy, result, call),
        )
        return found, empty

    def _boundary(self, last: int) -> int:
        """Return the last place up to an index where a turn begins, 0 without one."""
        wire, messages = self._wire, self._messages
        for index in range(last, 0, -1):
            if wire.begins(messages[index]):
                return index
            if wire.calls_of(messages[index]) is not None:
                before = messages[index - 1]
                if wire.calls_of(before) is None and not wire.begins(before):
                    return index
        return 0

    def _stands_alone(
        self, before: Message, seen: Transcript, found: Match, empty: set[int]
    ) -> bool:
        """Tell whether no result in the end can belong to a call before it, and none before it to a call in it."""
        asked: set[Hashable] = set()
        for message in seen.messages:
            for part in message.parts:
                if isinstance(part, Content):
                    continue
                if part.id is None or part.id != part.id.strip():
                    return False  # who is meant depends on all the others
                if isinstance(part, Call):
                    asked.add(part.key)
                elif part.key not in asked:
                    return False
        if 0 in empty or before.empty:
            return False
        if seen.messages[0].role != "assistant":
            return before.role != seen.messages[0].role or not self._wire.RULES.alternates
        # Behind results a turn begins, and one of those may have come early for a call left empty.
        ends_in_result = before.role == self._wire.RULES.result_role and any(
            isinstance(part, Result) for part in before.parts
        )
        first = find_turns(seen, self._wire.RULES, gone=empty)[0]
        return ends_in_result and all(
            call.number in found.answers for call in (*first.calls, *first.server_calls)
        )


def _last_role(messages: Sequence[Message]) -> Role | None:
    return next((message.role for message in reversed(messages) if not message.empty), None)
