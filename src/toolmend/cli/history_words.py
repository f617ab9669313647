"""Findings in words: in one line, as a record, and explained."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from toolmend._histories.source import name_of
from toolmend.cli.history_screen import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolmend._histories.look import Look
    from toolmend.mending.findings import Finding

_KINDS: Final = {
    "dangling_call": "the call has no result",
    "pending_call": "the call has no result yet and may still run",
    "unanswerable_call": "the call has no result, and none can be made up for its kind",
    "nameless_call": "the call names no tool",
    "duplicate_call": "the call stands twice in its turn",
    "orphan_result": "the result belongs to no call",
    "duplicate_result": "the call has another result already",
    "superseded_placeholder": "a placeholder stands beside the real result that came later",
    "misplaced_result": "the result stands in the wrong place",
    "split_results": "the results of one batch stand in several messages",
    "mixed_result_turn": "other parts stand between results",
    "wrong_result_type": "the result is of another kind than its call",
    "missing_id": "the call has no id",
    "malformed_id": "the id has a form that the provider refuses",
    "reused_id": "the id was used in an earlier turn",
    "colliding_id": "two calls of one turn have this id",
    "invalid_arguments": "the arguments are no JSON object in the form that the provider takes",
    "orphan_reasoning": "reasoning stands without what it led to",
    "empty_message": "there is nothing in it, or an empty part",
    "bad_first_turn": "no history may begin like this",
    "role_order": "the roles stand in an order that the host refuses",
    "unknown_role": "no format knows the role",
}
_CAUSES: Final = {
    "in_flight": "it is running elsewhere",
    "server_tool": "the provider runs it",
    "invalid_arguments": "its arguments are cut off",
    "partial_batch": "other calls of its batch have results",
    "end_of_history": "the history ends with it",
    "interrupted": "other messages follow, and nothing of its batch was answered",
}
_ACTIONS: Final = {
    "patched": "puts a placeholder result in, so that the model knows that the outcome is unknown",
    "dropped": "takes the call out, because it cannot stay",
    "removed": "takes it out, because the provider refuses it there",
    "moved": "moves it to where the provider looks for it",
    "merged": "puts them into one message, where the provider looks for them",
    "split": "puts the other parts behind the results",
    "retyped": "gives it the type that its call asks for",
    "renamed": "gives another id to the call and its result",
    "fixed": "corrects it in place",
    "stubbed": "puts a short text there, so that the history may begin",
    "bridged": "puts a short message in between",
    "left": "leaves it: a provider takes it, or it may still be answered",
}


def finding_line(finding: Finding) -> str:
    """Return a finding in one line: where, what, which call, and why."""
    where = f"messages[{finding.index}]" if finding.index >= 0 else "messages"
    words = [where, finding.kind]
    if finding.tool_name is not None:
        words.append(f"tool={printable(finding.tool_name)}")
    if finding.call_id is not None:
        words.append(f"id={printable(finding.call_id)}")
    if finding.cause is not None:
        words.append(f"cause={finding.cause}")
    return " ".join(words)


def explanation(finding: Finding) -> tuple[str, str]:
    """Return what is wrong, and what a repair does about it and why."""
    wrong = f"{finding.kind}: {_KINDS.get(finding.kind, 'see the findings')}"
    reason = _CAUSES.get(finding.cause or "")
    if reason is not None:
        wrong += f"; {reason}"
    elif finding.detail:
        wrong += f" ({printable(finding.detail)})"
    return wrong, _ACTIONS.get(finding.action, finding.action)


def record(file: str, found: Look) -> dict[str, Any]:
    """Return one history as a JSON object: ids, names and roles, and no content."""
    judged = found.judged
    made: dict[str, Any] = {
        "file": name_of(file),
        "line": found.line,
        "format": None if judged is None else judged.format,
        "legal": judged is not None and judged.is_legal,
        "findings": [] if judged is None else [_finding(finding) for finding in judged.findings],
        "counts": {} if judged is None else dict(judged.counts),
    }
    if found.trouble is not None:
        made["error"] = found.trouble
    return made


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "index": finding.index,
        "kind": finding.kind,
        "action": finding.action,
        "tool_name": finding.tool_name,
        "call_id": finding.call_id,
        "cause": finding.cause,
        "detail": finding.detail,
    }


class Tally:
    """How many histories were what."""

    def __init__(self) -> None:
        self.legal = 0
        self.broken = 0
        self.unreadable = 0
        self._kinds: Counter[str] = Counter()

    def add(self, found: Look) -> None:
        """Count a history."""
        if found.judged is None:
            self.unreadable += 1
        elif found.judged.is_legal:
            self.legal += 1
        else:
            self.broken += 1
            self._kinds.update(
                finding.kind for finding in found.judged.findings if finding.action != "left"
            )

    def line(self, broken: str, unreadable: str) -> str:
        """Return the total in one line, with what became of broken and of unreadable ones."""
        count = self.legal + self.broken + self.unreadable
        parts = [f"{count} {_plural(count, 'history', 'histories')}: {self.legal} legal"]
        parts.append(f"{self.broken} {broken}{self._findings()}")
        if self.unreadable:
            parts.append(f"{self.unreadable} {unreadable}")
        return ", ".join(parts)

    def _findings(self) -> str:
        if not self._kinds:
            return ""
        kinds: Iterable[tuple[str, int]] = sorted(
            self._kinds.items(), key=lambda pair: (-pair[1], pair[0])
        )
        return f" ({', '.join(f'{count} {kind}' for kind, count in kinds)})"


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
