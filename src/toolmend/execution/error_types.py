"""Error types: what each of the ways means in which a tool call fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolmend.execution.breaker import Verdict
    from toolmend.mending.findings import Cause
    from toolmend.telemetry.names import ErrorType


class Meaning(NamedTuple):
    """What follows from an error type.

    Attributes:
        repeats: whether an attempt that failed so may be repeated: never, whenever there is an attempt
            left, or only where the tool bears it (it is retry-safe, or it certainly did not run).
        verdict: what the breaker makes of it.
        falls_back: whether a fallback may answer instead: nothing wrong with what the model asked for,
            and nothing that may have happened.
        cause: why a call that ended so leaves no result.
    """

    repeats: Literal["never", "if_safe", "always"]
    verdict: Verdict
    falls_back: bool
    cause: Cause


MEANINGS: Final[Mapping[ErrorType, Meaning]] = {
    "invalid_arguments": Meaning("never", "ignored", falls_back=False, cause="tool_error"),
    "invalid_schema": Meaning("never", "invalid_schema", falls_back=True, cause="tool_error"),
    "unknown_tool": Meaning("never", "ignored", falls_back=False, cause="tool_error"),
    "timeout": Meaning("if_safe", "failed", falls_back=True, cause="timeout"),
    "outcome_unknown": Meaning("never", "failed", falls_back=False, cause="timeout"),
    "transient": Meaning("if_safe", "failed", falls_back=True, cause="tool_error"),
    "rate_limited": Meaning("always", "ignored", falls_back=True, cause="tool_error"),
    "denied": Meaning("never", "denied", falls_back=True, cause="tool_error"),
    "gone": Meaning("never", "gone", falls_back=True, cause="tool_error"),
    "permanent": Meaning("never", "ok", falls_back=False, cause="tool_error"),
    "invalid_result": Meaning("if_safe", "failed", falls_back=True, cause="tool_error"),
    "breaker_open": Meaning("never", "ignored", falls_back=True, cause="breaker_open"),
    "cancelled": Meaning("never", "ignored", falls_back=False, cause="cancelled"),
    "crashed": Meaning("never", "ignored", falls_back=False, cause="crashed"),
}
