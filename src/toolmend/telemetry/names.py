"""The telemetry vocabulary: every attribute, metric, span, event and log name, written once.

Names that exist in the GenAI conventions keep their spelling there and are written as constants of
our own, because the constants of ``opentelemetry-semantic-conventions`` are deprecated snapshots.
Everything else starts with ``toolmend.``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

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
STATE: Final = "toolmend.state"
FROM: Final = "toolmend.from"
TO: Final = "toolmend.to"
REASON: Final = "toolmend.reason"
KIND: Final = "toolmend.kind"
ATTEMPTS: Final = "toolmend.attempts"
ATTEMPT: Final = "toolmend.attempt"

# Spans and their events.
SPAN_MODEL_CALL: Final = "toolmend.model_call"
EVENT_FINDING: Final = "toolmend.finding"
EXECUTE_TOOL: Final = "execute_tool"
"""The operation of a tool's span; the span is called so, with the name of the tool behind it."""
SPAN_ATTEMPT: Final = "toolmend.attempt"
EVENT_INVALID: Final = "toolmend.invalid"

# Log events.
LOG_MENDED: Final = "tool_calls_mended"
LOG_OBSERVED: Final = "tool_calls_observed"
LOG_REJECTED: Final = "history_rejected"
LOG_FAULT: Final = "toolmend_fault"
LOG_TOOL_FAILED: Final = "tool_call_failed"
LOG_BREAKER_OPENED: Final = "breaker_opened"
LOG_MISCONFIGURED: Final = "tool_misconfigured"
LOG_EVENTS: Final = (
    LOG_MENDED,
    LOG_OBSERVED,
    LOG_REJECTED,
    LOG_FAULT,
    LOG_TOOL_FAILED,
    LOG_BREAKER_OPENED,
    LOG_MISCONFIGURED,
)

LOG_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "action": ACTION,
        "attempts": ATTEMPTS,
        "call_id": CALL_ID,
        "call_ids": CALL_IDS,
        "cause": CAUSE,
        "causes": CAUSES,
        "counts": REPAIRS,
        "error_type": ERROR_TYPE,
        "exception": EXCEPTION_TYPE,
        "finding": FINDING,
        "findings": FINDINGS,
        "first_changed_index": FIRST_CHANGED_INDEX,
        "format": FORMAT,
        "messages": MESSAGES,
        "mode": MODE,
        "model": MODEL,
        "outcome": OUTCOME,
        "provider": PROVIDER,
        "reason": REASON,
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
TOOL_OUTCOMES: Final = ("ok", "degraded", "failed", "cancelled", "abandoned")
ErrorType = Literal[
    "invalid_arguments",
    "invalid_schema",
    "unknown_tool",
    "timeout",
    "outcome_unknown",
    "transient",
    "rate_limited",
    "denied",
    "gone",
    "permanent",
    "invalid_result",
    "breaker_open",
    "cancelled",
    "crashed",
]
ERROR_TYPES: Final = get_args(ErrorType)
BreakerState = Literal["closed", "open", "half_open", "forced_open", "disabled"]
BREAKER_STATES: Final = get_args(BreakerState)
BREAKER_REASONS: Final = (
    "failures",
    "rate",
    "denied",
    "gone",
    "invalid_schema",
    "waited",
    "probe_failed",
    "probe_ok",
    "forced",
    "disabled",
    "reset",
)
FallbackKind = Literal["alternative", "default", "human"]
FALLBACK_KINDS: Final = get_args(FallbackKind)
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
TOOL_CALLS_EXECUTED: Final = Metric(
    name="toolmend.tool_calls.executed",
    kind="counter",
    unit="{call}",
    description="Tool calls that were run under a guard, by how they ended.",
    attributes=(TOOL, OUTCOME, ERROR_TYPE),
)
TOOL_DURATION: Final = Metric(
    name="gen_ai.execute_tool.duration",
    kind="histogram",
    unit="s",
    description="Time from a tool call to its result, retries and fallback included.",
    attributes=(TOOL, ERROR_TYPE),
    buckets=(
        *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24),
        *(20.48, 40.96, 81.92),
    ),
)
TOOL_CALLS_RETRIED: Final = Metric(
    name="toolmend.tool_calls.retried",
    kind="counter",
    unit="{attempt}",
    description="Attempts beyond the first of a tool call, by what the one before failed of.",
    attributes=(TOOL, ERROR_TYPE),
)
TOOL_CALLS_ABANDONED: Final = Metric(
    name="toolmend.tool_calls.abandoned",
    kind="gauge",
    unit="{call}",
    description="Tool calls that were given up and still run, since nothing can stop them.",
    attributes=(TOOL,),
)
BREAKER_STATE: Final = Metric(
    name="toolmend.breaker.state",
    kind="gauge",
    unit="{breaker}",
    description="State of the breaker of a tool: 1 for the current one, 0 for the others.",
    attributes=(TOOL, STATE),
)
BREAKER_TRANSITIONS: Final = Metric(
    name="toolmend.breaker.transitions",
    kind="counter",
    unit="{transition}",
    description="Changes of state of breakers.",
    attributes=(TOOL, FROM, TO, REASON),
)
FALLBACKS: Final = Metric(
    name="toolmend.fallbacks",
    kind="counter",
    unit="{call}",
    description="Tool calls that a fallback answered.",
    attributes=(TOOL, KIND),
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
    TOOL_CALLS_EXECUTED,
    TOOL_DURATION,
    TOOL_CALLS_RETRIED,
    TOOL_CALLS_ABANDONED,
    BREAKER_STATE,
    BREAKER_TRANSITIONS,
    FALLBACKS,
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
