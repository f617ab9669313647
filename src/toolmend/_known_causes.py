"""Known causes: what the record of tool calls says about the calls that a repair found without a result."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from toolmend._call_ends import CallEnd, call_ends, digest_of
from toolmend.errors import BrokenHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolmend.formats import Format
    from toolmend.mending.findings import Cause, Finding

_WITHOUT_RESULT = ("dangling_call", "unanswerable_call")


class KnownCauses:
    """The causes of one repair that are known and not inferred.

    Args:
        findings: what was found.
        thread: id of the conversation, None where nobody named it.
        messages: the history.
        wire: its format, None where it is not known.
    """

    def __init__(
        self,
        findings: Iterable[Finding],
        thread: str | None,
        messages: Sequence[object],
        wire: Format | None,
    ) -> None:
        self.spans: list[object] = []
        self._causes: dict[Finding, Cause] = {}
        self._by_id: defaultdict[str, set[Cause | None]] = defaultdict(set)
        for finding in findings:
            call_id = finding.call_id
            if finding.kind not in _WITHOUT_RESULT or call_id is None:
                continue
            found = None
            if call_ends.knows(call_id):
                digest = None if wire is None else _digest(finding, messages, wire)
                found = call_ends.find(thread, call_id, finding.tool_name, digest)
            self._add(finding, call_id, found)

    def _add(self, finding: Finding, call_id: str, found: CallEnd | None) -> None:
        cause = None if found is None else found.cause
        self._by_id[call_id].add(cause)
        if cause is not None:
            self._causes[finding] = cause
        span = None if found is None else found.span_context
        if span is not None and span not in self.spans:
            self.spans.append(span)

    def by_id(self) -> dict[str, Cause]:
        """Return the causes by the ids of calls, without ids whose calls ended in different ways."""
        found: dict[str, Cause] = {}
        for call_id, causes in self._by_id.items():
            [cause, *others] = causes
            if cause is not None and not others:
                found[call_id] = cause
        return found

    def told(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the same findings with the known causes in place of the inferred ones."""
        if not self._causes:
            return findings
        return tuple(
            replace(finding, cause=self._causes[finding]) if finding in self._causes else finding
            for finding in findings
        )

    def told_error(self, error: BrokenHistoryError) -> BrokenHistoryError:
        """Return the same error with the known causes."""
        return BrokenHistoryError(self.told(error.findings)) if self._causes else error


def _digest(finding: Finding, messages: Sequence[object], wire: Format) -> bytes | None:
    """Return the digest of the call that was found, None where it cannot be told from others."""
    if not 0 <= finding.index < len(messages):
        return None
    digests = {
        digest_of(call.name, call.arguments)
        for call in wire.calls_of(messages[finding.index]) or ()
        if call.id == finding.call_id and isinstance(call.name, str)
    }
    return digests.pop() if len(digests) == 1 else None
