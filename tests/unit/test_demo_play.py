"""A run of the demo: what it counts, and that the seed alone decides it."""

from __future__ import annotations

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from toolmend._demo.clients import describe_clients, installed_sdks
from toolmend._demo.events import Mended, PhaseBegan, PhaseEnded, Refused, TurnEnded
from toolmend._demo.phases import PHASES, TROUBLES
from toolmend._demo.play import Play
from toolmend._demo.script import Script
from toolmend.settings import settings
from toolmend.telemetry import names


def played(seed=1, turns=8, *, sdks=None, meter_provider=None, listener=None):
    events = []
    play = Play(
        Script(seed, turns),
        sdks=sdks or {},
        seconds=0,
        tracer_provider=trace.NoOpTracerProvider(),
        meter_provider=meter_provider or metrics.NoOpMeterProvider(),
        listener=listener or events.append,
    )
    play.run()
    return play, events


@pytest.fixture(scope="module")
def whole():
    """A run of the usual length."""
    return played(turns=16)


@pytest.mark.parametrize("turns", [8, 17], ids=["short", "with-a-second-conversation"])
def test_the_same_seed_and_number_of_turns_make_the_same_report_and_the_same_events(turns):
    first, told = played(turns=turns)
    second, told_again = played(turns=turns)

    assert first.report() == second.report()
    assert told == told_again


def test_another_seed_makes_another_report():
    assert played(seed=1)[0].report() != played(seed=2)[0].report()


def test_the_sdks_and_plain_http_make_the_same_report():
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    sdks = installed_sdks()

    with_sdks, told = played(sdks=sdks)
    without, told_without = played()

    assert sorted(sdks) == ["anthropic", "openai"]
    assert with_sdks.report() == without.report()
    assert told == told_without


@pytest.mark.parametrize(
    ("sdks", "expected"),
    [
        ({}, "plain HTTP (no openai or anthropic SDK installed)"),
        ({"openai": None}, "plain HTTP (no anthropic SDK installed)"),
    ],
    ids=["none", "one"],
)
def test_it_says_which_clients_are_missing(sdks, expected):
    assert describe_clients(sdks).endswith(expected)


def test_the_tally_equals_what_the_sdk_reads():
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    play, _ = played(turns=17, meter_provider=provider)
    report = play.report()

    read = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    read[metric.name, frozenset(point.attributes.items())] = getattr(
                        point, "value", None
                    )
    provider.shutdown()

    def total(metric, **where):
        wanted = {(getattr(names, key), value) for key, value in where.items()}
        return sum(v for (name, labels), v in read.items() if name == metric and wanted <= labels)

    assert total(names.TOOL_CALLS_DANGLING.name) > 0
    assert any(name == names.REPAIR_DURATION.name for name, _ in read)
    for row in report.models:
        of_model = {"MODEL": row.name}
        dangling = names.TOOL_CALLS_DANGLING.name
        assert row.requests == total(names.MODEL_CALLS.name, **of_model)
        assert row.mended == total(names.MODEL_CALLS.name, OUTCOME="repaired", **of_model)
        assert row.requested == total(names.TOOL_CALLS_REQUESTED.name, **of_model)
        assert row.firsts == total(dangling, RECURRENCE="first", **of_model)
        assert row.repeats == total(dangling, RECURRENCE="repeat", **of_model)
    for row in report.tools:
        assert row.requested == total(names.TOOL_CALLS_REQUESTED.name, TOOL=row.name)
        assert row.firsts == total(dangling, RECURRENCE="first", TOOL=row.name)
        assert row.repeats == total(dangling, RECURRENCE="repeat", TOOL=row.name)
    for row in report.threads:
        assert row.firsts == total(names.THREADS_DANGLING.name, THREAD=row.name)
    for row in report.causes:
        assert row.firsts == total(names.DANGLING_CAUSES.name, CAUSE=row.name)


def test_all_tables_come_to_the_same_sums(whole):
    report = whole[0].report()

    assert {
        sum(row.firsts for row in rows)
        for rows in (report.models, report.tools, report.threads, report.causes, report.phases)
    } == {report.firsts}
    assert {
        sum(row.repeats for row in rows)
        for rows in (report.models, report.tools, report.threads, report.phases)
    } == {report.repeats}
    assert sum(row.requests for row in report.threads) == report.requests
    assert sum(row.refused for row in report.threads) == report.refused


@pytest.mark.parametrize("turns", [8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_every_phase_is_what_it_is_named_for(seed, turns):
    healthy, flaky, broken, recovery = played(seed, turns)[0].report().phases

    assert healthy.rate < flaky.rate < broken.rate
    # Calls that broke in the last turn are found in the next one, which is a phase later.
    assert recovery.rate <= broken.rate


def test_every_request_that_would_have_been_refused_is_mended_and_accepted(whole):
    play, events = whole
    report = play.report()

    assert report.refused == report.mended > 0
    assert report.refused_all_the_same == 0
    assert not [event for event in events if isinstance(event, Refused)]


def test_without_the_repair_the_provider_refuses(monkeypatch):
    monkeypatch.setenv("TOOLMEND_DISABLED", "1")
    settings.cache_clear()
    try:
        play, events = played()
    finally:
        monkeypatch.undo()
        settings.cache_clear()

    refused = [event for event in events if isinstance(event, Refused)]
    assert play.report().refused_all_the_same == len(refused) > 0
    assert any("tool" in event.message for event in refused)


def test_a_store_that_keeps_the_mended_history_has_no_repeats(whole):
    for row in whole[0].report().threads:
        assert row.firsts > 0
        assert (row.repeats == 0) == row.keeps_mends


def test_every_first_is_told_once_with_what_broke(whole):
    play, events = whole
    report = play.report()
    mended = [event for event in events if isinstance(event, Mended)]
    patched = [event for event in mended if event.action == "patched"]

    assert len(patched) == report.firsts
    assert all(event.trouble in TROUBLES and event.tool != "unknown" for event in mended)
    assert [event.thread for event in mended if event.action == "moved"], "late results"


def test_every_trouble_and_every_cause_comes_up(whole):
    report = whole[0].report()

    assert {name for name, _ in report.troubles} == set(TROUBLES)
    assert {row.name: {trouble for trouble, _ in row.origins} for row in report.causes} == {
        "timeout": {"timeout"},
        "tool_error": {"error"},
        "cancelled": {"cancelled", "interrupt"},
        # Tools that ended well, and whose results went down with another tool of their batch.
        "result_lost": {"cancelled", "error", "interrupt", "timeout"},
        "end_of_history": {"crash"},
        "interrupted": {"cut off"},
        "invalid_arguments": {"cut off"},
    }


def test_phases_begin_and_end_in_order_and_every_turn_is_told(whole):
    _, events = whole

    named = [phase.name for phase in PHASES]
    assert [event.phase.name for event in events if isinstance(event, PhaseBegan)] == named
    assert [event.row.name for event in events if isinstance(event, PhaseEnded)] == named
    assert [event.turn for event in events if isinstance(event, TurnEnded)] == list(range(16))


def test_users_begin_a_new_conversation_before_a_history_gets_too_long():
    threads = [row.name for row in played(turns=17)[0].report().threads]

    assert threads[:6] == ["ann", "ben", "cal", "dan", "eve", "flo"]
    assert threads[6:] == ["ann2", "ben2", "cal2", "dan2", "eve2", "flo2"]


def test_a_run_that_is_stopped_has_a_report():
    def stop(event):
        if isinstance(event, Mended):
            raise KeyboardInterrupt

    play = Play(
        Script(1, 8),
        sdks={},
        seconds=0,
        tracer_provider=trace.NoOpTracerProvider(),
        meter_provider=metrics.NoOpMeterProvider(),
        listener=stop,
    )
    with pytest.raises(KeyboardInterrupt):
        play.run()

    assert 0 < play.report().requests < played()[0].report().requests
