"""Calls of one Gemini content and the responses of the next."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from toolmend.testing.strict import gemini_problems
from toolmend.testing.strict.gemini_contents import Content, Part, id_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


def judge_pairs(
    calling: Content, answering: Content | None, allowance: Allowance, *, is_end: bool
) -> Iterator[Problem]:
    """Judge that the content behind a content of calls holds one response per call.

    A response belongs to the call of its id; without ids, to the first open call of its name.

    Args:
        calling: The content with the calls.
        answering: The content right behind it; None when it ends the list.
        allowance: What may be open.
        is_end: Whether nothing stands behind the answering content.
    """
    responses = () if answering is None or answering.is_of_model else answering.responses
    batch = _Batch(calling.calls)
    by_id = [part for part in responses if batch.has_id(part.response)]
    others = [part for part in responses if not batch.has_id(part.response)]
    behind: list[Problem] = []
    has_stray = False
    for part in [*by_id, *others]:
        assert answering is not None
        problem = batch.answer(answering.index, part.response or {}, allowance)
        behind.extend(problem)
        has_stray = has_stray or batch.found_stray
    is_tail = is_end and not has_stray
    if answering is not None and len(responses) != len(answering.parts or ()):
        is_tail = False

    dangling = [call for call in batch.open_calls() if not (is_tail and _may_wait(call, allowance))]
    if dangling:
        ids = tuple(call_id for call_id in map(id_of, dangling) if call_id is not None)
        yield gemini_problems.dangling(calling.index, ids)
    if answering is not None:
        yield from behind
        if len(calling.calls) > 1:
            yield from _judge_between(answering)


def _may_wait(call: Mapping[str, object], allowance: Allowance) -> bool:
    return allowance.open_tail or id_of(call) in allowance.open_ids


def _judge_between(answering: Content) -> Iterator[Problem]:
    """Judge what stands between the responses of a parallel batch; texts are let through."""
    positions = [part.position for part in answering.responses]
    for part in answering.parts or ():
        is_other = part.response is None and not part.is_text and not part.is_without_data
        if is_other and positions and positions[0] < part.position < positions[-1]:
            yield gemini_problems.mixed_result_turn(answering.index, part.position)
            return


class _Batch:
    """The calls of one content, while responses take them."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.found_stray = False
        self._calls = [part.call or {} for part in parts]
        self._is_open = [True] * len(self._calls)
        self._by_id: dict[str, deque[int]] = {}
        self._unnumbered: dict[str | None, deque[int]] = {}
        self._numbered: dict[str | None, deque[int]] = {}
        for number, call in enumerate(self._calls):
            call_id = id_of(call)
            by_name = self._unnumbered if call_id is None else self._numbered
            by_name.setdefault(name_of(call), deque()).append(number)
            if call_id is not None:
                self._by_id.setdefault(call_id, deque()).append(number)

    def has_id(self, response: Mapping[str, object] | None) -> bool:
        """Tell whether a response names the id of a call."""
        return id_of(response or {}) in self._by_id

    def open_calls(self) -> list[Mapping[str, object]]:
        """Return the calls that no response took."""
        return [call for call, is_open in zip(self._calls, self._is_open, strict=True) if is_open]

    def answer(
        self, index: int, response: Mapping[str, object], allowance: Allowance
    ) -> list[Problem]:
        """Let a response take its call; return what is wrong with it."""
        response_id, name = id_of(response), name_of(response)
        if response_id is not None and response_id in self._by_id:
            number = self._take(self._by_id[response_id])
            if number is None:
                return [gemini_problems.duplicate_result(index, response_id)]
            is_same = name_of(self._calls[number]) == name
            return [] if is_same else [gemini_problems.wrong_name(index, response_id)]
        if self._take(self._unnumbered.get(name)) is not None:
            return []
        if response_id is None:
            number = self._take(self._numbered.get(name))
            if number is not None:
                call_id = id_of(self._calls[number])
                return [gemini_problems.missing_id(index, call_id or "")]
        if name in self._unnumbered or (response_id is None and name in self._numbered):
            return [gemini_problems.duplicate_result(index, response_id)]
        self.found_stray = True
        if allowance.orphans:
            return []
        return [gemini_problems.orphan(index, response_id, is_behind_calls=True)]

    def _take(self, waiting: deque[int] | None) -> int | None:
        while waiting:
            number = waiting.popleft()
            if self._is_open[number]:
                self._is_open[number] = False
                return number
        return None
