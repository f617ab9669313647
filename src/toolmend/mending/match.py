"""Matching: which result answers which call, by position and never by sets of ids."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from toolmend.mending.ids import as_written
from toolmend.mending.transcript import (
    Call,
    Content,
    ContentKind,
    Result,
    Rules,
    Transcript,
)
from toolmend.mending.turns import Turn, find_turns

Spare = Literal["orphan_result", "duplicate_result", "superseded_placeholder"]
IsPlaceholder = Callable[[Result, Call], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Who answers whom.

    Attributes:
        answers: number of a call -> number of the result it owns.
        owners: the same the other way round.
        spares: number of a result nobody owns -> what it is.
        copies: number of a call that repeats another one of its turn -> number of that one.
    """

    answers: dict[int, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    spares: dict[int, Spare] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)

    def own(self, call: Call, result: Result) -> None:
        """Give a result to a call."""
        self.answers[call.number] = result.number
        self.owners[result.number] = call.number


@dataclass(slots=True)
class _Group:
    """Uses of one id in one turn, with the results up to the next use of that id."""

    turn: int
    calls: list[Call]
    results: list[Result] = field(default_factory=list)


def match(
    transcript: Transcript, rules: Rules, empty: set[int], is_placeholder: IsPlaceholder
) -> Match:
    """Decide which result answers which call, in linear time.

    A call owns the first result of its id behind it and before the next call of that id; two calls of
    one id in one turn take results by order; a real result wins over a placeholder. Only then may a
    call left empty take an unowned result that stands before it with nothing but results in between.
    """
    found = Match()
    turns = find_turns(transcript, rules, gone=empty)
    turn_of = {index: turn.position for turn in turns for index in turn.messages}
    trimmed = transcript.trim_result_keys()
    groups: dict[Hashable, _Group] = {}
    early: dict[Hashable, list[Result]] = {}
    for index, message in enumerate(transcript.messages):
        for part in message.parts:
            if isinstance(part, Call):
                turn = turn_of.get(index, -1 - index)
                group = groups.get(part.key)
                if group is not None and group.turn == turn:
                    group.calls.append(part)
                else:
                    if group is not None:
                        _settle(group, found, is_placeholder)
                    groups[part.key] = _Group(turn, [part])
            elif isinstance(part, Result):
                key = trimmed.get(part.number, part.key)
                group = groups.get(key)
                if group is not None:
                    group.results.append(part)
                else:
                    early.setdefault(key, []).append(part)
                    found.spares[part.number] = "orphan_result"
    for group in groups.values():
        _settle(group, found, is_placeholder)
    if found.spares:
        _take_early_results(
            transcript, turns, found, empty=empty, trimmed=trimmed, is_placeholder=is_placeholder
        )
    return found


def _settle(group: _Group, found: Match, is_placeholder: IsPlaceholder) -> None:
    calls = _without_copies(group.calls, found) if len(group.calls) > 1 else group.calls
    results = group.results
    if not results:
        return
    if len(calls) == 1 and len(results) == 1:
        found.own(calls[0], results[0])
        return
    made_up = {result.number for result in results if is_placeholder(result, calls[0])}
    real = [result for result in results if result.number not in made_up]
    chosen = real[: len(calls)]
    missing = len(calls) - len(chosen)
    if missing:
        chosen += [result for result in results if result.number in made_up][:missing]
        chosen.sort(key=lambda result: result.number)
    for call, result in _pairs(calls, chosen):
        found.own(call, result)
    for result in results:
        if result.number not in found.owners:
            is_superseded = result.number in made_up and any(
                later.number > result.number for later in real
            )
            found.spares[result.number] = (
                "superseded_placeholder" if is_superseded else "duplicate_result"
            )


def _pairs(calls: list[Call], results: list[Result]) -> list[tuple[Call, Result]]:
    """Pair by family first, where calls of one id have several, and then by order."""
    if len({call.family for call in calls}) == 1:
        return list(zip(calls, results, strict=False))
    waiting: dict[str, deque[Result]] = defaultdict(deque)
    for result in results:
        waiting[result.family].append(result)
    pairs: list[tuple[Call, Result]] = []
    left: list[Call] = []
    for call in calls:
        if waiting[call.family]:
            pairs.append((call, waiting[call.family].popleft()))
        else:
            left.append(call)
    others = sorted(result for queue in waiting.values() for result in queue)
    return [*pairs, *zip(left, others, strict=False)]


def _without_copies(calls: list[Call], found: Match) -> list[Call]:
    """Take out calls equal in id, name and arguments; nothing tells a copy without id or text."""
    kept: list[Call] = []
    first: dict[tuple[str, str], int] = {}
    for call in calls:
        written = as_written(call.arguments)
        mark = (call.name, written or "")
        if call.id is not None and written is not None and mark in first:
            found.copies[call.number] = first[mark]
            continue
        kept.append(call)
        if written is not None:
            first[mark] = call.number
    return kept


def _take_early_results(
    transcript: Transcript,
    turns: list[Turn],
    found: Match,
    *,
    empty: set[int],
    trimmed: dict[int, Hashable],
    is_placeholder: IsPlaceholder,
) -> None:
    """Let calls left empty take unowned results that stand right before their turn."""
    for turn in turns:
        calls = (*turn.calls, *turn.server_calls)
        if not calls:
            continue
        asking: dict[Hashable, list[Call]] = {call.key: [] for call in calls}
        for call in calls:
            if call.number not in found.answers and call.number not in found.copies:
                asking[call.key].append(call)
        early: dict[Hashable, list[Result]] = defaultdict(list)
        for result in reversed(_results_ahead(transcript, turn, empty)):
            key = trimmed.get(result.number, result.key)
            if result.number in found.spares and key in asking:
                early[key].append(result)
        for key, results in early.items():
            takers = asking[key]
            if takers:
                results.sort(key=partial(_is_made_up, is_placeholder, takers[0]))
            for call, result in zip(takers, results, strict=False):
                del found.spares[result.number]
                found.own(call, result)
            for result in results[len(takers) :]:
                found.spares[result.number] = "duplicate_result"


def _is_made_up(is_placeholder: IsPlaceholder, call: Call, result: Result) -> bool:
    return is_placeholder(result, call)


def _results_ahead(transcript: Transcript, turn: Turn, empty: set[int]) -> list[Result]:
    """Return the results that may have come ahead of the calls of a turn, the nearest first."""
    before = _results_right_before(transcript, turn.messages[0], empty)
    return [*_server_results_in(transcript, turn), *before] if turn.server_calls else before


def _server_results_in(transcript: Transcript, turn: Turn) -> list[Result]:
    """Return the server results of a turn, the last first: one may stand ahead of its call."""
    return [
        part
        for index in reversed(turn.messages)
        for part in reversed(transcript.messages[index].parts)
        if isinstance(part, Result) and part.server
    ]


def _results_right_before(transcript: Transcript, index: int, gone: set[int]) -> list[Result]:
    """Return the unbroken run of results before a message, the nearest first."""
    run: list[Result] = []
    while index > 0:
        index -= 1
        message = transcript.messages[index]
        if index in gone:
            continue
        if message.role == "assistant" or not message.parts:
            break
        for part in reversed(message.parts):
            if isinstance(part, Result):
                run.append(part)
            elif not isinstance(part, Content) or part.kind is not ContentKind.BLANK:
                return run
    return run
