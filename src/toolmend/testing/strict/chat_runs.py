"""Runs of results behind the assistant messages that called, as OpenAI Chat wants them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict import chat_problems
from toolmend.testing.strict.plain import as_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    """An assistant message: the id of each of its calls, None for a missing one."""

    call_ids: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tool message: the id it names, in whatever shape it has."""

    call_id: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Any other message: it ends a run."""


Entry = Assistant | Result | Break


def judge_runs(entries: Sequence[Entry], allowance: Allowance) -> Iterator[Problem]:
    """Yield what is wrong with ids, calls and results.

    Each call is answered once, in the unbroken run of results right behind its message; each
    result answers a call of that message; ids are there and distinct within one message
    (OpenAI function calling guide; langchain-ai/deepagentsjs#150, nextcloud/context_agent#140).
    """
    start = 0
    while start < len(entries):
        entry = entries[start]
        end = start + 1
        if isinstance(entry, Assistant):
            while end < len(entries) and isinstance(entries[end], Result):
                end += 1
            yield from _judge_batch(entries, start, end, entry, allowance)
        elif isinstance(entry, Result):
            yield from _judge_stray(start, as_id(entry.call_id), allowance)
        start = end


def _judge_batch(
    entries: Sequence[Entry], start: int, end: int, assistant: Assistant, allowance: Allowance
) -> Iterator[Problem]:
    open_calls: Counter[str] = Counter()
    for position, call_id in enumerate(assistant.call_ids):
        if call_id is None:
            yield chat_problems.missing_call_id(start, position)
            continue
        if call_id in open_calls:
            yield chat_problems.duplicate_id(start, position, call_id)
        open_calls[call_id] += 1

    behind: list[Problem] = []
    is_tail = end == len(entries)
    for index in range(start + 1, end):
        entry = entries[index]
        result_id = as_id(entry.call_id) if isinstance(entry, Result) else None
        if result_id is None or result_id not in open_calls:
            is_tail = False
            behind.extend(_judge_stray(index, result_id, allowance))
        elif open_calls[result_id] == 0:
            behind.append(chat_problems.duplicate_result(index, result_id))
        else:
            open_calls[result_id] -= 1

    if dangling := allowance.forbidden(open_calls, is_tail=is_tail):
        yield chat_problems.dangling(start, dangling)
    yield from behind


def _judge_stray(index: int, result_id: str | None, allowance: Allowance) -> Iterator[Problem]:
    if result_id is None:
        yield chat_problems.missing_result_id(index)
    elif not allowance.orphans:
        yield chat_problems.orphan(index, result_id)
