"""Known causes: what the record of tool calls says about the calls that a repair found without a result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolmend._call_ends import CallEnd, call_ends
from toolmend.errors import BrokenHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolmend.mending.findings import Cause, Finding

_WITHOUT_RESULT = ("dangling_call", "unanswerable_call")


class KnownCauses:
    """The causes of one repair that are known and not inferred.

    Args:
        findings: what was found.
        thread: id of the conversation, None where nobody named it.
    """

    def __init__(self, findings: Iterable[Finding], thread: str | None) -> None:
        self.causes: dict[str, Cause] = {}
        self.spans: list[object] = []
        for finding in findings:
            if finding.kind not in _WITHOUT_RESULT or finding.call_id is None:
                continue
            found = call_ends.find(thread, finding.call_id, finding.tool_name)
            if found is not None:
                self._add(finding.call_id, found)

    def _add(self, call_id: str, found: CallEnd) -> None:
        if found.cause is not None:
            self.causes[call_id] = found.cause
        if found.span_context is not None and found.span_context not in self.spans:
            self.spans.append(found.span_context)

    def told(self, error: BrokenHistoryError) -> BrokenHistoryError:
        """Return an error whose findings tell the known causes in place of the inferred ones."""
        if not self.causes:
            return error
        return BrokenHistoryError(
            tuple(
                replace(finding, cause=self.causes[finding.call_id])
                if finding.kind in _WITHOUT_RESULT and finding.call_id in self.causes
                else finding
                for finding in error.findings
            )
        )
