"""Texts: what the model is told in place of a result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from toolmend.mending.texts import CANCELLED, CANCELLED_MIDWAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.execution.failures import Failure

NO_OUTPUT: Final = "done, no output"
MAX_MESSAGE_CHARS: Final = 1_000
_MAX_NAMES: Final = 20
_UNKNOWN: Final = "It may have happened all the same: do not repeat it, check first."


def message_of(error: BaseException) -> str:
    """Return the message of an exception, cut where it gets absurd; its class if it has none."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a tool's own exception, which may do anything
        message = ""
    # A lone surrogate cannot be sent.
    message = message[: 2 * MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode("utf-8")
    return shortened(message.strip(), MAX_MESSAGE_CHARS) or type(error).__name__


def shortened(text: str, limit: int) -> str:
    """Return a text that is not longer than a limit, with a mark where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def seconds(value: float) -> str:
    """Return seconds as people write them."""
    return f"{value:.2g} s" if value < 1 else f"{math.ceil(value)} s"


def text_for(
    failure: Failure,
    *,
    tool: str,
    attempts: int,
    is_outcome_unknown: bool,
    timeout_seconds: float | None = None,
) -> str:
    """Return what the model is told about a failed call.

    Args:
        failure: why it failed.
        tool: name of the tool.
        attempts: how often it was run.
        is_outcome_unknown: it may have happened all the same.
        timeout_seconds: the time limit of an attempt.
    """
    wait = failure.retry_after_seconds
    match failure.error_type:
        case "invalid_arguments":
            return (
                f"The arguments of {tool} are not valid. {failure.message} "
                "Fix them and call it again."
            )
        case "invalid_schema":
            return f"{tool} is misconfigured and cannot be used. Use another way."
        case "unknown_tool":
            return failure.message
        case "cancelled" | "crashed":
            return (CANCELLED_MIDWAY if is_outcome_unknown else CANCELLED)["en"]
        case "timeout" | "outcome_unknown":
            limit = "" if timeout_seconds is None else f" after {seconds(timeout_seconds)}"
            tries = f" ({attempts} attempts)" if attempts > 1 else ""
            told = f"{tool} timed out{limit}{tries}."
        case "transient":
            tries = f" in {attempts} attempts" if attempts > 1 else ""
            told = f"{tool} failed{tries}: a temporary error of the tool."
        case "rate_limited":
            told = f"{tool} is rate limited."
            if wait is not None and not is_outcome_unknown:
                told += f" Retry after {seconds(wait)}."
        case "denied" | "gone":
            told = f"{tool} is unavailable. Use another way."
        case "permanent":
            told = failure.message or f"{tool} cannot do this."
        case "invalid_result":
            told = f"{tool} returned malformed data."
        case "breaker_open":
            told = f"{tool} is unavailable."
            if wait is not None and not is_outcome_unknown:
                told += f" Retry in {seconds(wait)}."
    return unknown(told) if is_outcome_unknown else told


def unknown(told: str) -> str:
    """Return what the model is told of a failed call that may have happened all the same."""
    return told if _UNKNOWN in told else f"{told} {_UNKNOWN}"


def unknown_tool(name: str, known: Sequence[str]) -> str:
    """Return what the model is told that called a tool which does not exist.

    Args:
        name: what it called.
        known: the tools there are, closest first.
    """
    if not known:
        return "There are no tools."
    listed = ", ".join(known[:_MAX_NAMES])
    return f"There is no tool called {shortened(name, 100)!r}. Use one of: {listed}."


def degraded(text: str, tool: str) -> str:
    """Return a default value as the model gets it."""
    return f"{text}\n(degraded: {tool} is unavailable, this is a default value)"


def escalated(tool: str, ticket: str, expires_seconds: float, text_at_expiry: str) -> str:
    """Return what the model is told when a human was asked."""
    return (
        f"{tool} could not do it, so a human was asked (ticket {shortened(ticket, 200)}). "
        f"If there is no answer within {seconds(expires_seconds)}: {text_at_expiry}"
    )


def exhausted(tool: str, failures: int) -> str:
    """Return what the model is told when the budget of the run is spent."""
    return (
        f"{tool} failed {failures} times in this run and is not tried again here. Use another way."
    )
