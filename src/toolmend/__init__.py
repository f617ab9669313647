"""Mends dangling tool calls right before an LLM call, and shows how often it had to, and why."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from toolmend._model_call import model_call
from toolmend._threads import propagate, thread
from toolmend.errors import (
    BrokenHistoryError,
    HistoryError,
    MalformedHistoryError,
    MissingExtraError,
    PolicyError,
    ToolmendError,
    UnrecognizedHistoryError,
)
from toolmend.mend import Edit, Repair, check, repair
from toolmend.mending.findings import Finding
from toolmend.mending.policy import OpenCall, Policy
from toolmend.telemetry.setup import Telemetry, setup_telemetry

if _typing.TYPE_CHECKING:
    from toolmend.execution import (
        Breaker,
        CircuitBreaker,
        Escalation,
        Failure,
        Fallback,
        Retry,
        ToolCallFailed,
        ToolContext,
        Tools,
        breaker_of,
        tool_call,
        tool_context,
    )
    from toolmend.integrations.instrument import instrument, uninstrument

__all__ = [
    "Breaker",
    "BrokenHistoryError",
    "CircuitBreaker",
    "Edit",
    "Escalation",
    "Failure",
    "Fallback",
    "Finding",
    "HistoryError",
    "MalformedHistoryError",
    "MissingExtraError",
    "OpenCall",
    "Policy",
    "PolicyError",
    "Repair",
    "Retry",
    "Telemetry",
    "ToolCallFailed",
    "ToolContext",
    "ToolmendError",
    "Tools",
    "UnrecognizedHistoryError",
    "breaker_of",
    "check",
    "instrument",
    "model_call",
    "propagate",
    "repair",
    "setup_telemetry",
    "thread",
    "tool_call",
    "tool_context",
    "uninstrument",
]

_LAZY = {
    **dict.fromkeys(
        (
            *("Breaker", "CircuitBreaker", "Escalation", "Failure", "Fallback", "Retry"),
            *("ToolCallFailed", "ToolContext", "Tools", "breaker_of", "tool_call", "tool_context"),
        ),
        "toolmend.execution",
    ),
    **dict.fromkeys(("instrument", "uninstrument"), "toolmend.integrations.instrument"),
}
"""Names that need an extra, and where they are; they are imported when they are asked for."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(_importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
