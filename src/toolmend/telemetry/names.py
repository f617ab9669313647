"""The telemetry vocabulary: every attribute, metric, span, event and log name, written once.

Names that exist in the GenAI conventions keep their spelling there and are written as constants of
our own, because the constants of ``opentelemetry-semantic-conventions`` are deprecated snapshots.
Everything else starts with ``toolmend.``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

SCOPE: Final = "toolmend"
"""The instrumentation scope of every tracer, meter and logger."""

UNKNOWN: Final = "unknown"
"""The model, provider or format when nothing is known about it."""

OTHER: Final = "_OTHER"
"""The value that stands for every value past a cardinality limit."""

# Attributes of the GenAI and general conventions.
MODEL: Final = "gen_ai.request.model"
PROVIDER: Final = "gen_ai.provider.name"
THREAD: Final = "gen_ai.conversation.id"
TOOL: Final = "gen_ai.tool.name"
CALL_ID: Final = "gen_ai.tool.call.id"
OPERATION: Final = "gen_ai.operation.name"
ERROR_TYPE: Final = "error.type"
EVENT_NAME: Final = "event.name"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# Attributes of our own.
FORMAT: Final = "toolmend.format"
MODE: Final = "toolmend.mode"
OUTCOME: Final = "toolmend.outcome"
REJECTED: Final = "toolmend.rejected"
MESSAGES: Final = "toolmend.history.messages"
FIRST_CHANGED_INDEX: Final = "toolmend.first_changed_index"
REPAIRS: Final = "toolmend.repairs"
FINDING: Final = "toolmend.finding"
FINDINGS: Final = "toolmend.findings"
ACTION: Final = "toolmend.action"
CAUSE: Final = "toolmend.cause"
RECURRENCE: Final = "toolmend.recurrence"
WHERE: Final = "toolmend.where"
TOOLS: Final = "toolmend.tools"
CALL_IDS: Final = "toolmend.call_ids"
CAUSES: Final = "toolmend.causes"

# Spans and their events.
SPAN_MODEL_CALL: Final = "toolmend.model_call"
EVENT_FINDING: Final = "toolmend.finding"

# Log events.
LOG_MENDED: Final = "tool_calls_mended"
LOG_OBSERVED: Final = "tool_calls_observed"
LOG_REJECTED: Final = "history_rejected"
LOG_FAULT: Final = "toolmend_fault"
LOG_EVENTS: Final = (LOG_MENDED, LOG_OBSERVED, LOG_REJECTED, LOG_FAULT)

LOG_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "action": ACTION,
        "call_id": CALL_ID,
        "call_ids": CALL_IDS,
        "cause": CAUSE,
        "causes": CAUSES,
        "counts": REPAIRS,
        "error_type": ERROR_TYPE,
        "finding": FINDING,
        "findings": FINDINGS,
        "first_changed_index": FIRST_CHANGED_INDEX,
        "format": FORMAT,
        "messages": MESSAGES,
        "mode": MODE,
        "model": MODEL,
        "outcome": OUTCOME,
        "provider": PROVIDER,
        "recurrence": RECURRENCE,
        "thread": THREAD,
        "tool": TOOL,
        "tools": TOOLS,
        "where": WHERE,
    }
)
"""The short keys of our log events and the attributes they become; a mapping is spread below its name."""

# Closed sets. Metrics show no other value of these attributes.
OUTCOMES: Final = ("clean", "repaired", "observed", "raised", "unrecognized", "fault")
RECURRENCES: Final = ("first", "repeat")
ACTIONS: Final = (
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
    "observed",
)
INFERRED_CAUSES: Final = (
    "in_flight",
    "server_tool",
    "invalid_arguments",
    "partial_batch",
    "end_of_history",
    "interrupted",
    "unknown",
)
RECORDED_CAUSES: Final = (
    "timeout",
    "cancelled",
    "crashed",
    "breaker_open",
    "tool_error",
    "result_lost",
)
FAULT_PLACES: Final = (
    "recognise",
    "repair",
    "thread",
    "on_repair",
    "stream",
    "telemetry",
    "tool",
    "store",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One instrument as data: what it is called, what it counts and what it may be split by."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    description: str
    attributes: tuple[str, ...]
    buckets: tuple[float, ...] | None = None


MODEL_CALLS: Final = Metric(
    name="toolmend.model_calls",
    kind="counter",
    unit="{call}",
    description="Model calls, by what was done to their history.",
    attributes=(MODEL, PROVIDER, FORMAT, OUTCOME),
)
REJECTIONS: Final = Metric(
    name="toolmend.rejections",
    kind="counter",
    unit="{call}",
    description="Model calls whose history the provider refused all the same.",
    attributes=(MODEL, PROVIDER, OUTCOME),
)
TOOL_CALLS_REQUESTED: Final = Metric(
    name="toolmend.tool_calls.requested",
    kind="counter",
    unit="{call}",
    description="Tool calls that models asked for, each once.",
    attributes=(MODEL, PROVIDER, TOOL),
)
TOOL_CALLS_DANGLING: Final = Metric(
    name="toolmend.tool_calls.dangling",
    kind="counter",
    unit="{call}",
    description="Tool calls without a result that were patched or dropped.",
    attributes=(MODEL, PROVIDER, TOOL, RECURRENCE),
)
DANGLING_CAUSES: Final = Metric(
    name="toolmend.dangling.causes",
    kind="counter",
    unit="{call}",
    description="First sightings of tool calls without a result, by cause.",
    attributes=(TOOL, CAUSE),
)
THREADS_DANGLING: Final = Metric(
    name="toolmend.threads.dangling",
    kind="counter",
    unit="{call}",
    description="First sightings of tool calls without a result, by conversation.",
    attributes=(THREAD,),
)
REPAIR_COUNT: Final = Metric(
    name="toolmend.repairs",
    kind="counter",
    unit="{repair}",
    description="Repairs of histories, by what was found and what was done.",
    attributes=(MODEL, PROVIDER, FINDING, ACTION),
)
REPAIR_DURATION: Final = Metric(
    name="toolmend.repair.duration",
    kind="histogram",
    unit="s",
    description="Time spent on looking at a history and mending it.",
    attributes=(FORMAT, OUTCOME),
    buckets=(1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 1e-1),
)
FAULTS: Final = Metric(
    name="toolmend.faults",
    kind="counter",
    unit="{fault}",
    description="Internal faults that were swallowed, so that the call went on.",
    attributes=(WHERE,),
)

METRICS: Final = (
    MODEL_CALLS,
    REJECTIONS,
    TOOL_CALLS_REQUESTED,
    TOOL_CALLS_DANGLING,
    DANGLING_CAUSES,
    THREADS_DANGLING,
    REPAIR_COUNT,
    REPAIR_DURATION,
    FAULTS,
)
"""The instruments of this release, all of them."""

_PROMETHEUS_UNITS: Final = MappingProxyType({"s": "seconds"})


def prometheus_label(attribute: str) -> str:
    """Return the label that an attribute becomes in Prometheus: ``gen_ai.tool.name`` is ``gen_ai_tool_name``."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", attribute)


def prometheus_name(metric: Metric) -> str:
    """Return the series name of a metric under Prometheus' default translation.

    Dots become underscores, a unit is added behind the name unless it is an annotation in braces,
    and counters end in ``_total``. A histogram's series add ``_bucket``, ``_sum`` and ``_count``.

    Args:
        metric: An instrument of this module.

    Raises:
        KeyError: The metric has a unit this module does not know how to spell.
    """
    words = re.sub(r"[^a-zA-Z0-9:]", "_", metric.name).split("_")
    if not metric.unit.startswith("{"):
        unit = _PROMETHEUS_UNITS[metric.unit]
        words = [word for word in words if word != unit] + [unit]
    if metric.kind == "counter":
        words = [word for word in words if word != "total"] + ["total"]
    return "_".join(words)
