"""A history call by call: where each tool call stands, what answers it, and what is wrong with it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from toolmend._histories.judged import Judged
    from toolmend.mending.findings import Finding
    from toolmend.mending.transcript import Call, Transcript

    _Place = tuple[int, str | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """One tool call.

    Attributes:
        turn: number of the assistant turn with calls that it stands in, from 1.
        index: position of its message.
        tool_name: the tool, empty where the call names none.
        call_id: its id, None if it has none.
        results: positions of the messages with results for it.
        findings: what is wrong with it.
    """

    turn: int
    index: int
    tool_name: str
    call_id: str | None
    results: tuple[int, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A history call by call.

    Attributes:
        calls: every call, in wire order.
        others: what is wrong with anything else, such as a result without a call.
    """

    calls: tuple[CallLine, ...]
    others: tuple[Finding, ...]


def walk(judged: Judged) -> Walk:
    """Return a history call by call.

    A result belongs to the last message in front of it with a call of its id, else to the first one
    behind it; there to the first call that has no result yet.
    """
    wire = FORMATS.get(judged.format)
    if wire is None:
        return Walk(calls=(), others=judged.findings)
    transcript = wire.read(judged.messages)
    results = _results_by_call(transcript)
    findings: dict[_Place, list[Finding]] = defaultdict(list)
    for finding in judged.findings:
        findings[finding.index, finding.call_id, finding.tool_name or ""].append(finding)
    starts: list[int] = []
    for index, message in enumerate(transcript.messages):
        is_next = index > 0 and message.role == transcript.messages[index - 1].role == "assistant"
        starts.append(starts[-1] if is_next else index)
    lines: list[CallLine] = []
    turn, before = 0, None
    for call in transcript.calls:
        if starts[call.message] != before:
            turn, before = turn + 1, starts[call.message]
        own = findings.pop((call.message, call.id, call.name), [])
        lines.append(
            CallLine(
                turn=turn,
                index=call.message,
                tool_name=call.name,
                call_id=call.id,
                results=tuple(results[call.number]),
                findings=tuple(own),
            )
        )
    others = [finding for left in findings.values() for finding in left]
    return Walk(calls=tuple(lines), others=tuple(sorted(others, key=lambda finding: finding.index)))


def _results_by_call(transcript: Transcript) -> dict[int, list[int]]:
    """Return for the number of each call the positions of the messages with results for it."""
    calls_by_key: dict[Hashable, list[Call]] = defaultdict(list)
    for call in transcript.calls:
        calls_by_key[call.key].append(call)
    results: dict[int, list[int]] = defaultdict(list)
    for result in transcript.results:
        calls = calls_by_key.get(result.key, [])
        if not calls:
            continue
        # The calls stand in the order of their messages.
        ahead = bisect_right(calls, result.message, key=lambda call: call.message)
        message = calls[max(ahead - 1, 0)].message
        first = bisect_left(calls, message, key=lambda call: call.message)
        end = bisect_right(calls, message, key=lambda call: call.message)
        group = calls[first:end]
        chosen = next((call for call in group if not results[call.number]), group[-1])
        results[chosen.number].append(result.message)
    return results
