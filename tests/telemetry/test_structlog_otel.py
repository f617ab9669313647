"""structlog events become OpenTelemetry log records: named, correlated, and never at the caller's cost."""

from __future__ import annotations

import enum
import logging
import subprocess
import sys

import pytest
import structlog
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from toolmend.telemetry import names
from toolmend.telemetry.structlog_otel import OpenTelemetryProcessor, add_trace_ids

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Export:
    """A processor with a fresh provider behind it."""

    def __init__(self) -> None:
        self._memory = InMemoryLogRecordExporter()
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self._memory))
        self.process = OpenTelemetryProcessor(logger_provider=provider)

    @property
    def exported(self):
        return self._memory.get_finished_logs()

    def one(self, event_dict, *, method="warning", logger=None):
        assert self.process(logger, method, event_dict) is event_dict
        [found] = self.exported
        return found.log_record


@pytest.fixture
def export():
    return Export()


@pytest.fixture
def span():
    provider = TracerProvider(shutdown_on_exit=False)
    with provider.get_tracer("test").start_as_current_span("chat") as current:
        yield current


class Colour(enum.Enum):
    RED = "red"


class Hostile:
    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


class HostileList(list):
    def __iter__(self):
        raise ValueError("no")


def endless():
    while True:
        yield 1


def test_an_event_of_ours_goes_to_our_scope_under_the_contracts_names(export):
    export.one(
        {
            "event": "tool_calls_mended",
            "model": "gpt-4o",
            "provider": "openai",
            "thread": "conversation-42",
            "format": "openai-chat",
            "tools": ["search"],
            "call_ids": ["call_1"],
            "causes": ["timeout"],
            "recurrence": "first",
            "counts": {"patched": 1, "moved": 2},
        }
    )
    [found] = export.exported
    record = found.log_record
    assert found.instrumentation_scope.name == "toolmend"
    assert record.event_name == record.body == "tool_calls_mended"
    assert dict(record.attributes) == {
        "event.name": "tool_calls_mended",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "conversation-42",
        "toolmend.format": "openai-chat",
        "toolmend.tools": ("search",),
        "toolmend.call_ids": ("call_1",),
        "toolmend.causes": ("timeout",),
        "toolmend.recurrence": "first",
        "toolmend.repairs.patched": 1,
        "toolmend.repairs.moved": 2,
    }


@pytest.mark.parametrize("event", names.LOG_EVENTS)
def test_every_event_of_ours_is_mapped(export, event):
    assert export.one({"event": event, "where": "repair"}).attributes["toolmend.where"] == "repair"


@pytest.mark.parametrize(
    ("event_dict", "logger", "scope"),
    [
        pytest.param({"event": "paid", "model": "A"}, None, "structlog", id="nameless logger"),
        pytest.param({"event": "paid", "model": "A", "logger": "shop"}, None, "shop", id="key"),
        pytest.param(
            {"event": "paid", "model": "A"}, logging.getLogger("shop"), "shop", id="stdlib"
        ),
    ],
)
def test_an_event_of_the_application_keeps_its_keys_and_its_scope(
    export, event_dict, logger, scope
):
    record = export.one(event_dict, logger=logger)
    assert dict(record.attributes) == {"event.name": "paid", "model": "A"}
    assert export.exported[0].instrumentation_scope.name == scope


@pytest.mark.parametrize(
    ("method", "level", "severity", "number"),
    [
        ("debug", None, "DEBUG", 5),
        ("info", None, "INFO", 9),
        ("warn", None, "WARN", 13),
        ("warning", None, "WARN", 13),
        ("error", None, "ERROR", 17),
        ("exception", None, "ERROR", 17),
        ("critical", None, "FATAL", 21),
        ("msg", None, "INFO", 9),
        ("log", "error", "ERROR", 17),
        ("info", 7, "INFO", 9),
    ],
)
def test_severity(export, method, level, severity, number):
    event_dict = {"event": "paid"} | ({} if level is None else {"level": level})
    record = export.one(event_dict, method=method)
    assert (record.severity_text, record.severity_number.value) == (severity, number)
    assert "level" not in record.attributes


@pytest.mark.parametrize(
    ("event", "event_name"),
    [
        ("tool_calls_mended", "tool_calls_mended"),
        ("shop.order-paid", "shop.order-paid"),
        ("order 42 was paid", None),
        ("", None),
        ("42", None),
        ("x" * 129, None),
        (None, "None"),
    ],
    ids=["ours", "dotted", "sentence", "empty", "number", "long", "none"],
)
def test_only_what_looks_like_a_name_becomes_an_event_name(export, event, event_name):
    record = export.one({"event": event})
    assert record.event_name == event_name
    assert record.attributes.get("event.name") == event_name
    assert record.body == str(event)


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        pytest.param("a", "a", id="string"),
        pytest.param(True, True, id="bool"),
        pytest.param(7, 7, id="integer"),
        pytest.param(0.5, 0.5, id="float"),
        pytest.param(2**63, "9223372036854775808", id="integer beyond 64 bits"),
        pytest.param(b"\xff\x61", "\ufffda", id="bytes"),
        pytest.param("\ud800a", "?a", id="lone surrogate"),
        pytest.param(Colour.RED, "red", id="enum"),
        pytest.param(["a", "b"], ("a", "b"), id="list"),
        pytest.param((1, 2), (1, 2), id="tuple"),
        pytest.param([], (), id="empty list"),
        pytest.param({"b", "a"}, ("a", "b"), id="set in order"),
        pytest.param([1, "a", None], ("1", "a", "None"), id="mixed list"),
        pytest.param([True, 1], ("True", "1"), id="bool beside integer"),
        pytest.param([["a"], ["b"]], ("['a']", "['b']"), id="nested list"),
        pytest.param(ValueError("x"), "x", id="object"),
        pytest.param(Hostile(), "Hostile", id="object that refuses to be a string"),
    ],
)
def test_any_value_becomes_one_that_opentelemetry_takes(export, value, attribute):
    found = export.one({"event": "paid", "key": value}).attributes["key"]
    assert found == attribute
    assert type(found) is type(attribute)


def test_a_mapping_is_spread_and_nothing_is_left_out(export):
    record = export.one(
        {"event": "paid", "user": {"id": 7, "plan": None, "tags": {"a": 1}}, "x": None}
    )
    assert dict(record.attributes) == {
        "event.name": "paid",
        "user.id": 7,
        "user.tags": "{'a': 1}",
    }


@pytest.mark.parametrize(
    "event_dict",
    [
        pytest.param({}, id="no event"),
        pytest.param({"event": Hostile()}, id="event"),
        pytest.param({"event": "paid", "key": HostileList([1])}, id="sequence"),
        pytest.param({"event": "paid", "key": {Hostile(): Hostile()}}, id="mapping"),
        pytest.param({"event": "paid", "key": endless()}, id="endless iterator"),
        pytest.param({"event": "paid", 7: "seven"}, id="key that is no string"),
        pytest.param({"event": "paid", "exc_info": (1, 2)}, id="exc_info"),
        pytest.param({"event": "paid", "trace_id": 7, "span_id": object()}, id="trace ids"),
        pytest.param({"event": "paid", "key": [2**70, "\udfff"]}, id="values beyond protobuf"),
        pytest.param("rendered already", id="no mapping at all"),
    ],
)
def test_no_event_raises_and_none_spoils_the_batch(export, event_dict):
    assert export.process(None, "warning", event_dict) is event_dict
    assert encode_logs(export.exported).IsInitialized()


class OldLogger:
    """A logger of an API that cannot be asked whether it is enabled."""

    def __init__(self) -> None:
        self.emitted = []

    def emit(self, **fields):
        self.emitted.append(fields)


class StrangeLogger:
    """A logger of an API that has changed its shape."""

    def enabled(self, *, severity_number, event_name):
        return True

    def emit(self, record):
        raise AssertionError


class SilentLogger(OldLogger):
    def enabled(self, *, severity_number, event_name):
        return False


class Provider:
    def __init__(self, logger) -> None:
        self.logger = logger

    def get_logger(self, *_args, **_kwargs):
        return self.logger


@pytest.mark.parametrize(
    ("logger", "records"),
    [
        pytest.param(OldLogger(), 1, id="without enabled"),
        pytest.param(SilentLogger(), 0, id="switched off"),
        pytest.param(StrangeLogger(), None, id="another signature"),
    ],
)
def test_other_shapes_of_the_logs_api(logger, records):
    event_dict = {"event": "paid"}
    process = OpenTelemetryProcessor(logger_provider=Provider(logger))
    assert process(None, "warning", event_dict) is event_dict
    if records is not None:
        assert len(logger.emitted) == records


def test_without_the_logs_api_events_pass_and_nothing_is_exported():
    code = (
        "import sys; sys.modules['opentelemetry._logs'] = None\n"
        "from toolmend.telemetry.structlog_otel import OpenTelemetryProcessor\n"
        "event = {'event': 'paid'}\n"
        "assert OpenTelemetryProcessor()(None, 'info', event) is event"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nothing_is_exported_while_instrumentation_is_suppressed(export):
    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        export.process(None, "warning", {"event": "paid"})
    finally:
        context.detach(token)
    assert export.exported == ()


def test_a_record_belongs_to_the_current_span(export, span):
    record = export.one({"event": "tool_calls_mended"})
    assert record.trace_id == span.get_span_context().trace_id
    assert record.span_id == span.get_span_context().span_id


def test_a_record_belongs_to_the_span_that_its_event_names(export, span):
    record = export.one({"event": "tool_calls_mended", "trace_id": TRACE_ID, "span_id": SPAN_ID})
    assert trace.format_trace_id(record.trace_id) == TRACE_ID
    assert trace.format_span_id(record.span_id) == SPAN_ID
    assert dict(record.attributes) == {"event.name": "tool_calls_mended"}


def test_trace_ids_of_another_kind_stay_attributes(export, span):
    record = export.one({"event": "paid", "trace_id": "1234567890", "span_id": "12"})
    assert record.trace_id == span.get_span_context().trace_id
    assert record.attributes["trace_id"] == "1234567890"


def _raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    "exc_info",
    [
        pytest.param(lambda error: error, id="exception"),
        pytest.param(lambda error: (type(error), error, error.__traceback__), id="triple"),
    ],
)
def test_an_exception_of_the_application_is_exported(export, exc_info):
    error = _raised(ValueError("card declined"))
    attributes = export.one({"event": "paid", "exc_info": exc_info(error)}).attributes
    assert attributes["exception.type"] == "ValueError"
    assert attributes["exception.message"] == "card declined"
    assert "in _raised" in attributes["exception.stacktrace"]


def test_the_exception_being_handled_is_exported(export):
    try:
        raise ValueError("card declined")
    except ValueError:
        record = export.one({"event": "paid", "exc_info": True})
    assert record.attributes["exception.message"] == "card declined"


def test_of_an_exception_of_ours_only_the_type_is_told(export):
    error = _raised(ValueError("the user said: secret"))
    attributes = export.one({"event": "toolmend_fault", "exc_info": error}).attributes
    assert dict(attributes) == {"event.name": "toolmend_fault", "exception.type": "ValueError"}


def test_add_trace_ids_names_the_current_span(span):
    event_dict = add_trace_ids(None, "info", {"event": "paid"})
    assert event_dict["trace_id"] == trace.format_trace_id(span.get_span_context().trace_id)
    assert event_dict["span_id"] == trace.format_span_id(span.get_span_context().span_id)


def test_add_trace_ids_leaves_those_of_the_event(span):
    event_dict = {"event": "paid", "trace_id": TRACE_ID, "span_id": SPAN_ID}
    assert add_trace_ids(None, "info", dict(event_dict)) == event_dict


def test_add_trace_ids_without_a_span_adds_nothing():
    assert add_trace_ids(None, "info", {"event": "paid"}) == {"event": "paid"}


def test_in_a_chain_the_renderer_still_gets_the_short_keys(export):
    capture = structlog.testing.CapturingLogger()
    bound = structlog.wrap_logger(
        capture,
        processors=[
            structlog.processors.add_log_level,
            export.process,
            structlog.processors.KeyValueRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    bound.warning("tool_calls_mended", model="gpt-4o")
    bound.debug("tool_calls_mended", model="filtered")
    [call] = capture.calls
    assert call.args == ("event='tool_calls_mended' level='warning' model='gpt-4o'",)
    [found] = export.exported
    assert found.log_record.attributes["gen_ai.request.model"] == "gpt-4o"
