"""The opening of the demo: one broken history, refused as it is and accepted once mended."""

from __future__ import annotations

import logging

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NoOpTracerProvider

from toolmend._demo.opening import HISTORY, play_opening
from toolmend._demo.tally import Tally, listening
from toolmend.telemetry.names import TOOL_CALLS_DANGLING
from toolmend.telemetry.signals import using


def test_the_history_is_refused_as_it_is_and_accepted_once_mended():
    opening = play_opening()

    assert opening.status == 400
    assert "did not have response messages: call_1" in opening.refusal
    assert opening.placeholder.startswith("No result was recorded for this tool call.")
    assert opening.answer == "Yes! Shall I look again?"
    assert len(HISTORY) == 3


def test_nothing_of_it_is_counted_or_logged(caplog):
    caplog.set_level(logging.DEBUG)
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    tally = Tally(provider)
    with (
        using(tracer_provider=NoOpTracerProvider(), meter_provider=tally),
        listening() as heard,
    ):
        play_opening()
    provider.shutdown()

    assert heard == []
    assert "toolmend" not in caplog.text
    assert tally.total(TOOL_CALLS_DANGLING) == 0
