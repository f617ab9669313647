"""Mends dangling tool calls right before an LLM call, and shows how often it had to, and why."""

from __future__ import annotations

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

__all__ = [
    "BrokenHistoryError",
    "Edit",
    "Finding",
    "HistoryError",
    "MalformedHistoryError",
    "MissingExtraError",
    "OpenCall",
    "Policy",
    "PolicyError",
    "Repair",
    "Telemetry",
    "ToolmendError",
    "UnrecognizedHistoryError",
    "check",
    "model_call",
    "propagate",
    "repair",
    "setup_telemetry",
    "thread",
]
