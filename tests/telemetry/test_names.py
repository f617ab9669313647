"""The telemetry vocabulary is what the contract says, spelt once and importable for free."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolmend.mending import findings
from toolmend.telemetry import names

# Written out a second time on purpose: dashboards, alerts and other people's queries hold these names.
CONTRACT = [
    (
        "toolmend.model_calls",
        "counter",
        "{call}",
        ("gen_ai.request.model", "gen_ai.provider.name", "toolmend.format", "toolmend.outcome"),
        "toolmend_model_calls_total",
    ),
    (
        "toolmend.rejections",
        "counter",
        "{call}",
        ("gen_ai.request.model", "gen_ai.provider.name", "toolmend.outcome"),
        "toolmend_rejections_total",
    ),
    (
        "toolmend.tool_calls.requested",
        "counter",
        "{call}",
        ("gen_ai.request.model", "gen_ai.provider.name", "gen_ai.tool.name"),
        "toolmend_tool_calls_requested_total",
    ),
    (
        "toolmend.tool_calls.dangling",
        "counter",
        "{call}",
        (
            "gen_ai.request.model",
            "gen_ai.provider.name",
            "gen_ai.tool.name",
            "toolmend.recurrence",
        ),
        "toolmend_tool_calls_dangling_total",
    ),
    (
        "toolmend.dangling.causes",
        "counter",
        "{call}",
        ("gen_ai.tool.name", "toolmend.cause"),
        "toolmend_dangling_causes_total",
    ),
    (
        "toolmend.threads.dangling",
        "counter",
        "{call}",
        ("gen_ai.conversation.id",),
        "toolmend_threads_dangling_total",
    ),
    (
        "toolmend.repairs",
        "counter",
        "{repair}",
        ("gen_ai.request.model", "gen_ai.provider.name", "toolmend.finding", "toolmend.action"),
        "toolmend_repairs_total",
    ),
    (
        "toolmend.repair.duration",
        "histogram",
        "s",
        ("toolmend.format", "toolmend.outcome"),
        "toolmend_repair_duration_seconds",
    ),
    (
        "toolmend.tool_calls.executed",
        "counter",
        "{call}",
        ("gen_ai.tool.name", "toolmend.outcome", "error.type"),
        "toolmend_tool_calls_executed_total",
    ),
    (
        "gen_ai.execute_tool.duration",
        "histogram",
        "s",
        ("gen_ai.tool.name", "error.type"),
        "gen_ai_execute_tool_duration_seconds",
    ),
    (
        "toolmend.tool_calls.retried",
        "counter",
        "{attempt}",
        ("gen_ai.tool.name", "error.type"),
        "toolmend_tool_calls_retried_total",
    ),
    (
        "toolmend.tool_calls.abandoned",
        "gauge",
        "{call}",
        ("gen_ai.tool.name",),
        "toolmend_tool_calls_abandoned",
    ),
    (
        "toolmend.breaker.state",
        "gauge",
        "{breaker}",
        ("gen_ai.tool.name", "toolmend.state"),
        "toolmend_breaker_state",
    ),
    (
        "toolmend.breaker.transitions",
        "counter",
        "{transition}",
        ("gen_ai.tool.name", "toolmend.from", "toolmend.to", "toolmend.reason"),
        "toolmend_breaker_transitions_total",
    ),
    (
        "toolmend.fallbacks",
        "counter",
        "{call}",
        ("gen_ai.tool.name", "toolmend.kind"),
        "toolmend_fallbacks_total",
    ),
    ("toolmend.faults", "counter", "{fault}", ("toolmend.where",), "toolmend_faults_total"),
]
# The finest and the coarsest thing each histogram tells apart, in seconds.
BUCKETS = {
    "toolmend.repair.duration": (1e-5, 1e-1),
    "gen_ai.execute_tool.duration": (0.01, 81.92),
}
# The GenAI and general conventions that we reuse. A new gen_ai name would be one that we made up.
CONVENTIONS = {
    "error.type",
    "event.name",
    "exception.message",
    "exception.stacktrace",
    "exception.type",
    "gen_ai.conversation.id",
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.tool.call.id",
    "gen_ai.tool.name",
}


@pytest.mark.parametrize(
    ("name", "kind", "unit", "attributes", "series"), CONTRACT, ids=[row[0] for row in CONTRACT]
)
def test_metric_is_as_the_contract_says(name, kind, unit, attributes, series):
    [metric] = [metric for metric in names.METRICS if metric.name == name]
    assert (metric.kind, metric.unit, metric.attributes) == (kind, unit, attributes)
    assert names.prometheus_name(metric) == series
    assert metric.description.endswith(".")


def test_there_is_no_other_metric():
    assert [metric.name for metric in names.METRICS] == [row[0] for row in CONTRACT]


@pytest.mark.parametrize(
    ("name", "kind", "unit", "series"),
    [
        pytest.param("a.calls.total", "counter", "{call}", "a_calls_total", id="total only once"),
        pytest.param("a.seconds", "histogram", "s", "a_seconds", id="unit only once"),
        pytest.param("a.age", "gauge", "s", "a_age_seconds", id="gauge has no total"),
        pytest.param("a.depth", "gauge", "{entry}", "a_depth", id="annotation vanishes"),
    ],
)
def test_prometheus_translation(name, kind, unit, series):
    metric = names.Metric(name=name, kind=kind, unit=unit, description="", attributes=())
    assert names.prometheus_name(metric) == series


def test_prometheus_label():
    assert names.prometheus_label(names.TOOL) == "gen_ai_tool_name"


def test_only_durations_have_buckets_and_they_span_what_they_measure():
    with_buckets = [metric for metric in names.METRICS if metric.buckets]
    assert with_buckets == [metric for metric in names.METRICS if metric.kind == "histogram"]
    assert {metric.name for metric in with_buckets} == set(BUCKETS)
    for metric in with_buckets:
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert (metric.buckets[0], metric.buckets[-1]) == BUCKETS[metric.name]


def test_every_name_is_a_convention_or_our_own():
    constants = {
        value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)
    }
    dotted = {value for value in constants if "." in value} | set(names.LOG_KEYS.values())
    assert {name for name in dotted if not name.startswith("toolmend.")} == CONVENTIONS


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(
            names.OUTCOMES,
            "clean repaired observed raised unrecognized fault",
            id="outcome",
        ),
        pytest.param(names.RECURRENCES, "first repeat", id="recurrence"),
        pytest.param(
            names.ACTIONS,
            "patched dropped removed moved merged split retyped renamed fixed stubbed bridged observed",
            id="action",
        ),
        pytest.param(
            names.INFERRED_CAUSES,
            "in_flight server_tool invalid_arguments partial_batch end_of_history interrupted unknown",
            id="inferred cause",
        ),
        pytest.param(
            names.RECORDED_CAUSES,
            "timeout cancelled crashed breaker_open tool_error result_lost",
            id="recorded cause",
        ),
        pytest.param(
            names.FAULT_PLACES,
            "recognise repair thread on_repair stream telemetry tool store",
            id="where",
        ),
        pytest.param(
            names.LOG_EVENTS,
            "tool_calls_mended tool_calls_observed history_rejected toolmend_fault"
            " tool_call_failed breaker_opened tool_misconfigured",
            id="log event",
        ),
        pytest.param(
            names.TOOL_OUTCOMES, "ok degraded failed cancelled abandoned", id="outcome of a tool"
        ),
        pytest.param(
            names.ERROR_TYPES,
            "invalid_arguments invalid_schema unknown_tool timeout outcome_unknown transient"
            " rate_limited denied gone permanent invalid_result breaker_open cancelled crashed",
            id="error type",
        ),
        pytest.param(
            names.BREAKER_STATES,
            "closed open half_open forced_open disabled",
            id="state of a breaker",
        ),
        pytest.param(
            names.BREAKER_REASONS,
            "failures rate denied gone invalid_schema waited probe_failed probe_ok forced"
            " disabled reset",
            id="reason of a transition",
        ),
        pytest.param(names.FALLBACK_KINDS, "alternative default human", id="kind of a fallback"),
    ],
)
def test_closed_sets(values, expected):
    assert values == tuple(expected.split())


def test_no_two_short_log_keys_become_one_attribute():
    assert len(set(names.LOG_KEYS.values())) == len(names.LOG_KEYS)


def test_names_import_nothing_heavy():
    code = (
        "import runpy, sys\n"
        f"runpy.run_path({names.__file__!r})\n"
        "assert not {'opentelemetry', 'structlog', 'toolmend'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_closed_sets_are_those_of_the_core():
    assert set(names.ACTIONS) == set(findings.ACTIONS) - {"left"}
    assert names.INFERRED_CAUSES == findings.INFERRED_CAUSES
