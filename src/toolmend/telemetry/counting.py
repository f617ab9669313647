"""Counting: what one model call adds to the metrics, and the log event that goes with it."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from toolmend.telemetry import names
from toolmend.telemetry.events import log
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import as_label, shown
from toolmend.telemetry.sightings import call_digest, short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolmend.mending.findings import Finding
    from toolmend.telemetry.model_call_facts import ModelCallFacts
    from toolmend.telemetry.signals import Signals

_MAX_LISTED: Final = 32
_Mark = tuple[str | None, str | bytes | None, bytes, int]


def count_model_call(out: Signals, facts: ModelCallFacts) -> None:
    """Count one outermost model call with everything that was found in its history."""
    model, provider = facts.model, facts.provider
    if out.open(out.admitted(names.MODEL_CALLS, model, provider, facts.format, facts.outcome)[:3]):
        for outcome in names.OUTCOMES:
            out.add(names.MODEL_CALLS, model, provider, facts.format, outcome, amount=0)
            out.add(names.REJECTIONS, model, provider, outcome, amount=0)
    out.add(names.MODEL_CALLS, model, provider, facts.format, facts.outcome)
    out.record(names.REPAIR_DURATION, facts.repair_seconds, facts.format, facts.outcome)
    latest = _LatestCalls(out, facts)
    for tool, mark in latest.marks:
        labels = out.admitted(names.TOOL_CALLS_REQUESTED, model, provider, tool)
        if out.open(labels):
            out.add(names.TOOL_CALLS_DANGLING, *labels, "first", amount=0)
        if out.memory.requested.is_first(mark):
            out.add(names.TOOL_CALLS_REQUESTED, *labels)
    repairs = [finding for finding in facts.findings if finding.action != "left"]
    if not repairs:
        return
    firsts: list[Finding] = []
    for finding in repairs:
        out.add(names.REPAIR_COUNT, model, provider, finding.kind, finding.action)
        if not _is_dangling(finding):
            continue
        is_first = latest.is_first_sighting(finding)
        tool = as_label(finding.tool_name)
        labels = out.admitted(names.TOOL_CALLS_REQUESTED, model, provider, tool)
        out.add(names.TOOL_CALLS_DANGLING, *labels, "first" if is_first else "repeat")
        if is_first:
            firsts.append(finding)
            out.add(names.DANGLING_CAUSES, tool, finding.cause or names.UNKNOWN)
            if facts.thread is not None:
                out.add(names.THREADS_DANGLING, facts.thread)
    with guard("telemetry"):
        _log_repairs(out, facts, repairs, firsts)


def _is_dangling(finding: Finding) -> bool:
    """Tell whether a finding is a call without a result; a nameless call counts nowhere."""
    return finding.kind in ("dangling_call", "unanswerable_call")


class _LatestCalls:
    """The calls of the latest batch, each with a mark that tells it from other uses of its id.

    An assistant turn behind a batch means that an earlier request carried its calls already; for the
    latest batch a bounded memory catches the same request sent again.
    """

    def __init__(self, out: Signals, facts: ModelCallFacts) -> None:
        self.marks: list[tuple[str, _Mark]] = []
        self._out = out
        self._waiting: dict[tuple[int, str | None], deque[_Mark]] = defaultdict(deque)
        if facts.latest is None:
            return
        uses: dict[tuple[str | None, bytes], int] = {}
        for index, call in facts.latest.calls:
            tool = _text(call.name)
            if tool is None:
                continue
            call_id = _text(call.id)
            digest = call_digest(call, facts.latest.before)
            nth = uses[call_id, digest] = uses.get((call_id, digest), 0) + 1
            mark = (facts.thread, short(call_id), digest, nth)
            self.marks.append((as_label(tool), mark))
            self._waiting[index, call_id].append(mark)

    def is_first_sighting(self, finding: Finding) -> bool:
        """Tell whether a call without a result is seen for the first time, and remember it."""
        waiting = self._waiting.get((finding.index, finding.call_id))
        if not waiting:
            return False
        return self._out.memory.dangling.is_first(waiting.popleft())


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _log_repairs(
    out: Signals, facts: ModelCallFacts, repairs: list[Finding], firsts: list[Finding]
) -> None:
    is_news = bool(firsts)
    for finding in repairs:
        where = short(finding.call_id) or finding.index
        is_new = out.memory.reported.is_first((facts.thread, finding.kind, where))
        is_news = is_news or (is_new and not _is_dangling(finding))
    log(
        "warning" if is_news else "debug",
        names.LOG_MENDED if facts.outcome == "repaired" else names.LOG_OBSERVED,
        model=facts.model,
        provider=facts.provider,
        thread=facts.thread,
        format=facts.format,
        counts=dict(facts.counts),
        tools=_distinct(finding.tool_name for finding in repairs),
        call_ids=_distinct(finding.call_id for finding in repairs),
        causes=_distinct(finding.cause for finding in repairs if _is_dangling(finding)),
        recurrence="first" if firsts else "repeat",
    )


def _distinct(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(text for value in values if (text := shown(value))))[:_MAX_LISTED]
