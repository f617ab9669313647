"""Findings: what is wrong with a history, in closed sets of kinds, actions and causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

from toolmend.mending.frozen import FrozenMapping

Kind = Literal[
    "dangling_call",
    "pending_call",
    "unanswerable_call",
    "nameless_call",
    "duplicate_call",
    "orphan_result",
    "duplicate_result",
    "superseded_placeholder",
    "misplaced_result",
    "split_results",
    "mixed_result_turn",
    "wrong_result_type",
    "missing_id",
    "malformed_id",
    "reused_id",
    "colliding_id",
    "invalid_arguments",
    "orphan_reasoning",
    "empty_message",
    "bad_first_turn",
    "role_order",
    "unknown_role",
]
Action = Literal[
    "patched",
    "dropped",
    "removed",
    "moved",
    "merged",
    "split",
    "retyped",
    "renamed",
    "fixed",
    "stubbed",
    "bridged",
    "left",
    "observed",
]
InferredCause = Literal[
    "in_flight",
    "server_tool",
    "invalid_arguments",
    "partial_batch",
    "end_of_history",
    "interrupted",
    "unknown",
]

RecordedCause = Literal[
    "timeout",
    "cancelled",
    "crashed",
    "breaker_open",
    "tool_error",
    "result_lost",
]

Cause = InferredCause | RecordedCause

KINDS: Final[tuple[str, ...]] = get_args(Kind)
ACTIONS: Final[tuple[str, ...]] = get_args(Action)
INFERRED_CAUSES: Final[tuple[InferredCause, ...]] = get_args(InferredCause)
"""Causes that the shape of a history tells; the first that fits counts."""
RECORDED_CAUSES: Final[tuple[RecordedCause, ...]] = get_args(RecordedCause)
"""Causes that only who ran the tool can know."""
ALL_CAUSES: Final = (*INFERRED_CAUSES, *RECORDED_CAUSES)

MAIN_COUNTERS: Final = (
    "patched",
    "dropped",
    "moved",
    "orphan_results_removed",
    "duplicates_removed",
)
COUNTERS: Final = (
    *MAIN_COUNTERS,
    "results_dropped_with_call",
    "duplicate_calls_removed",
    "renamed_ids",
    "arguments_fixed",
    "merged_messages",
    "split_messages",
    "retyped_results",
    "empty_messages_removed",
    "stub_messages",
    "bridge_messages",
    "reasoning_removed",
)

_COUNTER_OF_ACTION: Final = {
    "patched": "patched",
    "dropped": "dropped",
    "moved": "moved",
    "merged": "merged_messages",
    "split": "split_messages",
    "retyped": "retyped_results",
    "renamed": "renamed_ids",
    "stubbed": "stub_messages",
    "bridged": "bridge_messages",
}
_COUNTER_OF_KIND: Final = {
    ("removed", "orphan_result"): "orphan_results_removed",
    ("removed", "duplicate_call"): "duplicates_removed",
    ("removed", "duplicate_result"): "duplicates_removed",
    ("removed", "superseded_placeholder"): "duplicates_removed",
    ("removed", "orphan_reasoning"): "reasoning_removed",
    ("removed", "empty_message"): "empty_messages_removed",
    ("fixed", "invalid_arguments"): "arguments_fixed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault of a history and what was done about it.

    Attributes:
        kind: the fault, one of ``KINDS``.
        action: what was done, one of ``ACTIONS``; ``left`` is no repair.
        index: position of the message in the list handed in; -1 where there is no such message.
        call_id: id of the call as the list handed in has it, None if it has none.
        tool_name: name of the tool, None where no call is concerned.
        cause: why a call is open: as recorded, else as the shape tells; None for other kinds.
        detail: one short sentence for a person, without message content.
    """

    kind: Kind
    action: Action
    index: int
    call_id: str | None = None
    tool_name: str | None = None
    cause: Cause | None = None
    detail: str = ""


def counter_of(kind: str, action: str) -> str | None:
    """Return the counter that a finding adds to, None if it adds to none."""
    return _COUNTER_OF_ACTION.get(action) or _COUNTER_OF_KIND.get((action, kind))


def count(findings: Iterable[Finding], *, results_dropped_with_call: int = 0) -> Mapping[str, int]:
    """Return the counters that follow from findings; the five main ones are always there."""
    totals: Counter[str] = Counter()
    for finding in findings:
        counter = counter_of(finding.kind, finding.action)
        if counter is not None:
            totals[counter] += 1
        if finding.kind == "duplicate_call" and finding.action == "removed":
            totals["duplicate_calls_removed"] += 1
    totals["results_dropped_with_call"] += results_dropped_with_call
    return FrozenMapping(
        {name: totals[name] for name in COUNTERS if name in MAIN_COUNTERS or totals[name]}
    )
