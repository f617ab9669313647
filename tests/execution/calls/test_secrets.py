"""No content leaves through telemetry, and no trouble of telemetry reaches a call."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
import textwrap
from contextlib import suppress
from typing import Any

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.execution.calls.driving import (
    DIRECT,
    QUICK,
    WAYS,
    Hang,
    Refused,
    asked,
    make,
    raising,
)
from toolmend.execution import Failure, Fallback, ToolCallFailed, Tools, tool_context
from toolmend.telemetry import signals

SECRET = "hunter2-sentinel"


def cause() -> Exception:
    error = RuntimeError(f"outer {SECRET}")
    error.__cause__ = ValueError(f"inner {SECRET}")
    return error


def context() -> Exception:
    try:
        raise KeyError(SECRET)
    except KeyError:
        error = OSError(5, SECRET, SECRET)
        error.__context__ = KeyError(SECRET)
        return error


BAD_SCHEMA = {"type": "object", "properties": {"q": {"pattern": "(", "default": SECRET}}}
STRICT = {"type": "object", "properties": {"q": {"enum": ["a"]}}, "additionalProperties": False}
LEAKS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "result": (lambda _: SECRET, {}, {}),
    "argument": (lambda _: 1, {}, {"q": SECRET}),
    "argument of a wrong type": (lambda _: 1, {}, {"n": SECRET}),
    "argument out of an enum": (lambda _: 1, {"arguments_schema": STRICT}, {"q": SECRET}),
    "name of an argument": (lambda _: 1, {}, {SECRET: 1}),
    "name of an argument, strict": (lambda _: 1, {"arguments_schema": STRICT}, {SECRET: 1}),
    "name of an inner argument": (
        lambda _: 1,
        {"arguments_schema": {"properties": {"q": {"additionalProperties": {"type": "null"}}}}},
        {"q": {SECRET: SECRET}},
    ),
    "preparation": (
        lambda _: 1,
        {"prepare_arguments": lambda values: 1 / 0 if values else values},
        {"q": SECRET},
    ),
    "preparation that refuses": (
        lambda _: 1,
        {"prepare_arguments": lambda values: int(values["q"])},
        {"q": SECRET},
    ),
    "transient error": (raising(ConnectionResetError(SECRET)), {}, {}),
    "permanent error": (raising(ValueError(SECRET)), {}, {}),
    "error with a cause": (raising(cause), {}, {}),
    "error in the context of another": (raising(context), {}, {}),
    "denied": (raising(lambda: Refused(403, www_authenticate=SECRET)), {}, {}),
    "classifier": (
        raising(RuntimeError(SECRET)),
        {"classify": lambda error: Failure(error_type="gone", message=SECRET, exception=error)},
        {},
    ),
    "classifier that raises": (
        raising(RuntimeError(SECRET)),
        {"classify": lambda error: error.odd},
        {},
    ),
    "invalid result": (lambda _: {"x": SECRET}, {"result_schema": {"type": "array"}}, {}),
    "invalid result, name": (
        lambda _: {SECRET: 1},
        {"result_schema": {"additionalProperties": {"type": "null"}}, "strict_result": True},
        {},
    ),
    "checked result": (
        lambda _: SECRET,
        {"check_result": lambda value: f"no {value}", "strict_result": True},
        {},
    ),
    "broken schema": (lambda _: 1, {"arguments_schema": BAD_SCHEMA}, {"q": SECRET}),
    "fallback": (raising(lambda: Refused(403)), {"fallback": Fallback(value=SECRET)}, {}),
    "human": (
        raising(lambda: Refused(403)),
        {"fallback": Fallback(human=lambda _: SECRET)},
        {"q": SECRET},
    ),
    "human who raises": (
        raising(lambda: Refused(403)),
        {"fallback": Fallback(human=lambda asked: {}[asked.arguments["q"]])},
        {"q": SECRET},
    ),
    "retries": (raising(ConnectionResetError(SECRET)), {"effect": "read"}, {"q": SECRET}),
    "interrupted": (raising(KeyboardInterrupt(SECRET)), {}, {}),
}


class Exported:
    """Everything that leaves: spans, metrics and logs as they would be written."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.logs = io.StringIO()

    def text(self) -> str:
        spans = "".join(span.to_json(indent=None) for span in self.spans.get_finished_spans())
        metrics = self.reader.get_metrics_data()
        return spans + (metrics.to_json(indent=None) if metrics else "") + self.logs.getvalue()


@pytest.fixture(params=["structlog", "stdlib"])
def exported(request: pytest.FixtureRequest) -> Any:
    made = Exported()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(made.spans))
    meters = MeterProvider([made.reader], shutdown_on_exit=False)
    handler = logging.StreamHandler(made.logs)
    handler.setFormatter(logging.Formatter("%(message)s %(exc_info)s %(args)s"))
    root = logging.getLogger()
    level = root.level
    if request.param == "structlog":
        structlog.configure(
            processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(made.logs),
            cache_logger_on_first_use=False,
        )
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with signals.using(tracer_provider=tracers, meter_provider=meters):
            yield made
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        structlog.reset_defaults()
        tracers.shutdown()
        meters.shutdown()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("body", "options", "arguments"), LEAKS.values(), ids=LEAKS)
def test_a_secret_leaves_through_no_signal(
    body: Any, options: dict[str, Any], arguments: dict[str, Any], way: str, exported: Exported
) -> None:
    tool = make(way, body, **options)
    with (
        tool_context(call_id="c1", run_id=None, thread="t1"),
        suppress(ToolCallFailed, KeyboardInterrupt, asyncio.CancelledError),
    ):
        tool.call(**arguments)
    seen = exported.text()
    assert "execute_tool look" in seen
    assert "gen_ai.execute_tool.duration" in seen
    assert SECRET not in seen


WRITTEN = {
    "cut off": f'{{"q": "{SECRET}',
    "no object": json.dumps([SECRET]),
    "name": json.dumps({SECRET: SECRET}),
    "too long": json.dumps({"q": SECRET * 20_000}),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_what_a_model_wrote_leaves_through_no_signal(written: str, exported: Exported) -> None:
    tools = Tools()
    tools.register(make("sync", lambda _: 1).guarded)
    [_] = tools.run_sync(asked(("c1", "look", written)))
    assert SECRET not in exported.text()


def test_the_name_of_a_tool_that_does_not_exist_leaves_through_no_signal(
    exported: Exported,
) -> None:
    Tools().run_sync(asked(("c1", SECRET, "{}")))
    seen = exported.text()
    assert "execute_tool _OTHER" in seen
    assert SECRET not in seen


@pytest.mark.parametrize("way", ["sync, limited", "async, limited"])
def test_an_abandoned_call_leaves_nothing_either(way: str, exported: Exported) -> None:
    tool = make(way, lambda _: Hang, timeout_seconds=0.03)
    tool.fails(q=SECRET)
    assert SECRET not in exported.text()


def test_a_sink_and_a_handover_that_fail_leave_nothing_either(exported: Exported) -> None:
    def fail(_: Any) -> None:
        raise ValueError(SECRET)

    tool = make("sync", raising(KeyboardInterrupt))
    with tool_context(call_id="c1", on_interrupted=fail), suppress(KeyboardInterrupt):
        tool.call()
    assert "toolmend_fault" in exported.text() or "toolmend.faults" in exported.text()
    assert SECRET not in exported.text()


def test_this_sentinel_would_be_seen(exported: Exported) -> None:
    with signals.signals().tracer.start_as_current_span(SECRET):
        logging.getLogger("app").warning("plain %s", "words")
    assert SECRET in exported.text()
    assert "plain words" in exported.text()


# -- broken telemetry -----------------------------------------------------------------------------


class RaisingExporter(SpanExporter):
    def export(self, spans: Any) -> Any:
        raise RuntimeError("exporter is broken")


class RaisingSpan(trace.NonRecordingSpan):
    """A span whose every method raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise RuntimeError("span is broken")


class RaisingSpans(trace.TracerProvider):
    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        class Tracer(trace.NoOpTracer):
            def start_span(self, *args: Any, **kwargs: Any) -> Any:
                return RaisingSpan(trace.INVALID_SPAN_CONTEXT)

        return Tracer()


class RaisingTracer(trace.TracerProvider):
    def get_tracer(self, *args: Any, **kwargs: Any) -> Any:
        class Tracer(trace.NoOpTracer):
            def start_span(self, *args: Any, **kwargs: Any) -> Any:
                raise RuntimeError("tracer is broken")

        return Tracer()


class RaisingMeters(NoOpMeterProvider):
    def get_meter(self, *args: Any, **kwargs: Any) -> Any:
        meter = super().get_meter("broken")

        class Instrument:
            def add(self, amount: float, *args: Any, **kwargs: Any) -> None:
                if amount:  # series are opened with nothing where providers are set
                    raise RuntimeError("instrument is broken")

            record = add

        made = Instrument()
        meter.create_counter = meter.create_histogram = lambda *a, **k: made  # type: ignore[assignment, method-assign]
        return meter


def raising_exporter() -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(RaisingExporter()))
    return made


BROKEN: dict[str, tuple[Any, Any]] = {
    "exporter": (raising_exporter, NoOpMeterProvider),
    "spans": (RaisingSpans, NoOpMeterProvider),
    "tracer": (RaisingTracer, NoOpMeterProvider),
    "instruments": (trace.NoOpTracerProvider, RaisingMeters),
}


@pytest.mark.parametrize("way", DIRECT)
@pytest.mark.parametrize(("tracers", "meters"), BROKEN.values(), ids=BROKEN)
def test_broken_telemetry_breaks_no_call(
    tracers: Any, meters: Any, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        signals.using(tracer_provider=tracers(), meter_provider=meters()),
        tool_context(call_id="c1", thread="t1"),
    ):
        well = make(way, raising(ConnectionRefusedError, None))
        assert well.call() == "found"
        assert len(well.runs) == 2
        failing = make(way, raising(ValueError("no such city")))
        assert failing.fails().text_for_model == "no such city"
        degraded = make(way, raising(lambda: Refused(403)), fallback=Fallback(value=0))
        assert degraded.call() == 0
        with pytest.raises(KeyboardInterrupt):
            make(way, raising(KeyboardInterrupt)).call()


@pytest.mark.parametrize(("tracers", "meters"), BROKEN.values(), ids=BROKEN)
def test_broken_telemetry_breaks_no_batch(tracers: Any, meters: Any) -> None:
    with signals.using(tracer_provider=tracers(), meter_provider=meters()):
        tools = Tools()
        tools.register(make("sync", raising(ConnectionRefusedError, None)).guarded)
        tools.register(make("async", lambda _: Hang, name="slow", timeout_seconds=0.03).guarded)
        results = tools.run_sync(
            asked(("c1", "look", "{}"), ("c2", "slow", "{}"), ("c3", "nobody", "{}"))
        )
    assert [result["tool_call_id"] for result in results] == ["c1", "c2", "c3"]
    assert results[0]["content"] == "found"


def test_a_logger_that_raises_breaks_no_call() -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("logger is broken")

    structlog.configure(processors=[fail], cache_logger_on_first_use=False)
    try:
        assert make("sync", raising(ValueError("no"))).fails().text_for_model == "no"
    finally:
        structlog.reset_defaults()


def test_all_works_where_there_is_no_sdk_of_opentelemetry() -> None:
    script = """
        import asyncio, sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name == "opentelemetry.sdk" or name.startswith("opentelemetry.sdk."):
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Refuse())
        import toolmend

        tools = toolmend.Tools()

        @tools.register(effect="read", retry=toolmend.Retry(initial_seconds=0.001))
        def look(q: str) -> str:
            if q == "x":
                raise ConnectionResetError
            return "found " + q

        call = lambda i, q: {"id": i, "type": "function",
                             "function": {"name": "look", "arguments": '{"q": "%s"}' % q}}
        message = {"role": "assistant", "content": None, "tool_calls": [call("a", "y"), call("b", "x")]}
        results = tools.run_sync(message)
        assert results[0]["content"] == "found y", results
        assert "3 attempts" in results[1]["content"], results
        assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
    """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""


def test_suppressed_telemetry_counts_nothing(exported: Exported) -> None:
    tool = make("sync", raising(ConnectionResetError), effect="read", retry=QUICK)
    with signals.suppressed():
        assert tool.fails().attempts == 3
    assert exported.spans.get_finished_spans() == ()
    assert "tool_calls.executed" not in exported.text()


@pytest.mark.parametrize("value", ["never", "repairs"])
def test_spans_are_made_as_the_operator_says(
    value: str, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolmend.settings import settings

    monkeypatch.setenv("TOOLMEND_SPANS", value)
    settings.cache_clear()
    try:
        make("sync", lambda _: 1, name="well").call()
        make("sync", raising(ValueError("x")), name="ill").fails()
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    names = [span.name for span in exported.spans.get_finished_spans()]
    assert names == ([] if value == "never" else ["execute_tool ill"])
    assert exported.text().count('"ill"') >= 1
