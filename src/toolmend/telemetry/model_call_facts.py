"""Facts about one outermost model call, filled in by every layer of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from toolmend.formats.batches import LatestBatch, latest_batch
from toolmend.telemetry import names
from toolmend.telemetry.faults import guard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolmend.formats import Format
    from toolmend.mending.findings import Finding

MENDED_OUTCOMES: Final = frozenset(("repaired", "observed", "raised"))
"""Outcomes of a history that needed repair."""


@dataclass(slots=True, kw_only=True)
class ModelCallFacts:
    """What happened in one outermost model call. Inner layers add their findings.

    Attributes:
        model: name of the model, ``unknown`` if nobody said.
        provider: name of the provider, likewise.
        thread: id of the conversation as telemetry may show it, None if nobody named it.
        format: wire format of the history.
        mode: ``repair``, ``observe`` or ``raise``.
        outcome: what was done about the history, one of ``names.OUTCOMES``.
        messages: length of the history handed in.
        findings: all findings of all layers.
        counts: the counters, summed over the layers.
        first_changed_index: of the outermost layer that changed something.
        latest: the latest batch of the history handed in.
        repair_seconds: time spent on looking and mending.
        started_at: when the call began, in nanoseconds since the epoch.
        tool_spans: contexts of the spans of the tool calls that left no result.
    """

    model: str = names.UNKNOWN
    provider: str = names.UNKNOWN
    thread: str | None = None
    format: str = names.UNKNOWN
    mode: str = "repair"
    outcome: str = "unrecognized"
    messages: int = 0
    findings: tuple[Finding, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    first_changed_index: int | None = None
    latest: LatestBatch | None = None
    repair_seconds: float = 0.0
    started_at: int = 0
    tool_spans: tuple[object, ...] = ()

    def note(
        self,
        wire: Format | None,
        messages: Sequence[object],
        outcome: str,
        findings: tuple[Finding, ...],
        counts: Mapping[str, int],
    ) -> None:
        """Note what was found in a history."""
        self.outcome = outcome
        if outcome == "raised":
            findings = tuple(
                finding if finding.action == "left" else replace(finding, action="observed")
                for finding in findings
            )
        self.findings = findings
        self.counts = {counter: amount for counter, amount in counts.items() if amount}
        if wire is not None:
            self.format = wire.NAME
            with guard("telemetry"):
                self.latest = latest_batch(messages, wire.calls_of)

    def absorb(self, inner: ModelCallFacts) -> None:
        """Take over what a layer inside found, and what this one does not know."""
        if self.model == names.UNKNOWN:
            self.model = inner.model
        if self.provider == names.UNKNOWN:
            self.provider = inner.provider
        if self.thread is None:
            self.thread = inner.thread
        self.repair_seconds += inner.repair_seconds
        self.tool_spans += tuple(span for span in inner.tool_spans if span not in self.tool_spans)
        knows_more = self.outcome == "unrecognized" and inner.outcome != "unrecognized"
        if knows_more or (self.outcome == "observed" and inner.outcome == "repaired"):
            self._take_over(inner)
            return
        if inner.outcome in MENDED_OUTCOMES:
            self.outcome = inner.outcome
        self._add_findings(inner)

    def _take_over(self, inner: ModelCallFacts) -> None:
        """Tell what the layer inside did: this one knew of no history, or only looked at it."""
        self.format, self.mode, self.outcome = inner.format, inner.mode, inner.outcome
        self.messages, self.latest = inner.messages, inner.latest
        self.findings, self.counts = inner.findings, dict(inner.counts)
        self.first_changed_index = inner.first_changed_index

    def _add_findings(self, inner: ModelCallFacts) -> None:
        """Add what this layer has not found itself."""
        known = {_mark(finding) for finding in self.findings}
        added = [finding for finding in inner.findings if _mark(finding) not in known]
        if not added:
            return
        calls = self.latest.calls if self.latest is not None else ()
        places = {call.id: index for index, call in calls if isinstance(call.id, str)}
        self.findings += tuple(
            # The list was another one inside: what counts is whether the call is of the latest batch.
            replace(finding, index=places.get(finding.call_id or "", -1))
            for finding in added
        )
        # The usual actions are not told by what was only observed, so whole layers are added up.
        for counter, amount in inner.counts.items():
            self.counts[counter] = self.counts.get(counter, 0) + amount


def _mark(finding: Finding) -> tuple[str, str | int]:
    return finding.kind, finding.index if finding.call_id is None else finding.call_id
