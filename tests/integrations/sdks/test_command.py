"""opentelemetry-instrument alone: the application has no line of toolmend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("opentelemetry.distro", reason="the command configures nothing without it")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="nothing to export with")

from tests.services.otlp_sink import Sink, http_sink, plain
from toolmend.testing import StrictProvider

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = Path(__file__).with_name("plain_app.py")
COMMAND = Path(sys.executable).with_name("opentelemetry-instrument")
ANSWERED = ["openai answered", "anthropic answered"]
REFUSED = ["openai refused", "anthropic refused"]


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as sink:
        yield sink


def run(sink: Sink, *command: str, **variables: str) -> list[str]:
    """Run the application and return its lines; all its telemetry has arrived then."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TOOLMEND_")) and not name.lower().endswith("_proxy")
    }
    with StrictProvider() as provider:
        done = subprocess.run(
            [*command, sys.executable, str(APP)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={
                **inherited,
                "OPENAI_API_KEY": "test",
                "OPENAI_BASE_URL": provider.openai_base_url,
                "ANTHROPIC_API_KEY": "test",
                "ANTHROPIC_BASE_URL": provider.anthropic_base_url,
                "OTEL_SERVICE_NAME": "plain-app",
                "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_LOGS_EXPORTER": "none",
                **variables,
            },
        )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def counted(sink: Sink, metric: str) -> float:
    """Return the last value of a counter, over all its series."""
    found = [
        arrived.item
        for arrived in sink.arrived
        if arrived.signal == "metrics" and arrived.item.name == metric
    ]
    return sum(point.as_int for point in found[-1].sum.data_points) if found else 0


def spans_of_ours(sink: Sink) -> list[dict[str, object]]:
    return [
        {"name": arrived.item.name, **plain(arrived.item.attributes)}
        for arrived in sink.arrived
        if arrived.signal == "traces" and arrived.scope.name == "toolmend"
    ]


def test_the_command_mends_and_exports(sink: Sink) -> None:
    assert run(sink) == REFUSED
    assert sink.arrived == []
    assert run(sink, str(COMMAND)) == ANSWERED
    spans = spans_of_ours(sink)
    assert [span["name"] for span in spans] == ["toolmend.model_call"] * 2
    assert [span["gen_ai.provider.name"] for span in spans] == ["openai", "anthropic"]
    assert {span["toolmend.outcome"] for span in spans} == {"repaired"}
    assert counted(sink, "toolmend.model_calls") == 2
    assert counted(sink, "toolmend.tool_calls.dangling") == 2


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "requests, toolmend"},
        {"TOOLMEND_DISABLED": "1"},
    ],
    ids=lambda variables: "-".join(f"{name}={value}" for name, value in variables.items()),
)
def test_switched_off(variables: dict[str, str], sink: Sink) -> None:
    assert run(sink, str(COMMAND), **variables) == REFUSED
    assert spans_of_ours(sink) == []
    assert counted(sink, "toolmend.model_calls") == 0


def test_the_mode_of_the_operator_counts(sink: Sink) -> None:
    """So do the switches of others not count."""
    switches = {
        "TOOLMEND_MODE": "observe",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "openai,urllib",
    }
    assert run(sink, str(COMMAND), **switches) == REFUSED
    assert {span["toolmend.outcome"] for span in spans_of_ours(sink)} == {"observed"}
    assert counted(sink, "toolmend.rejections") == 2
