"""setup_telemetry sets up what is missing, joins structlog, and leaves alone what is there.

OpenTelemetry and structlog are global and can be set once, so each case is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PREAMBLE = """
import json, logging, os, sys
import structlog
from opentelemetry import metrics, trace
from opentelemetry._logs import get_logger_provider
from toolmend.telemetry.setup import setup_telemetry
from toolmend.telemetry.structlog_otel import OpenTelemetryProcessor

def real(provider):
    return "Proxy" not in type(provider).__name__

def installed():
    found = {
        "traces": trace.get_tracer_provider(),
        "metrics": metrics.get_meter_provider(),
        "logs": get_logger_provider(),
    }
    return [signal for signal, provider in found.items() if real(provider)]

def report(**found):
    with open(os.environ["REPORT"], "w") as file:
        json.dump(found, file)
"""
# Nothing leaves the process, and nothing holds it at its end.
NO_EXPORT = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
CONSOLE = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}


class Result:
    def __init__(self, process, report) -> None:
        self.stderr = process.stderr
        self.report = report

    def lines(self, text):
        return [line for line in self.stderr.splitlines() if text in line]


@pytest.fixture
def run(tmp_path):
    """Run code after the preamble; its report, its standard error. Standard output is always empty."""

    def run(code, **env):
        report = tmp_path / "report.json"
        inherited = {name: value for name, value in os.environ.items() if "OTEL" not in name}
        process = subprocess.run(
            [sys.executable, "-c", PREAMBLE + code],
            check=False,
            env={**inherited, **NO_EXPORT, **env, "REPORT": str(report)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert process.returncode == 0, process.stderr
        assert process.stdout == ""
        return Result(process, json.loads(report.read_text()))

    return run


def test_importing_it_imports_no_sdk():
    code = (
        "import sys, toolmend.telemetry.setup\n"
        "assert not [m for m in sys.modules if m.startswith(('opentelemetry.sdk', 'grpc'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


EMIT = """
telemetry = setup_telemetry("shop")
with trace.get_tracer("shop").start_as_current_span("buy"):
    metrics.get_meter("shop").create_counter("paid").add(1)
    structlog.get_logger().warning("order_paid", order=42)
"""


def test_the_console_is_standard_error(run):
    result = run(EMIT + "report(signals=telemetry.signals)", **CONSOLE)
    assert result.report == {"signals": ["traces", "metrics", "logs"]}
    for text in ('"name": "buy"', '"name": "paid"', '"event_name": "order_paid"'):
        assert result.lines(text)


@pytest.mark.parametrize(
    ("env", "signals", "installed"),
    [
        pytest.param(
            CONSOLE, ["traces", "metrics", "logs"], ["traces", "metrics", "logs"], id="all"
        ),
        pytest.param(NO_EXPORT, [], ["traces"], id="none: spans still have ids"),
        pytest.param(
            {**CONSOLE, "OTEL_METRICS_EXPORTER": "none"},
            ["traces", "logs"],
            ["traces", "logs"],
            id="one none",
        ),
        pytest.param({**CONSOLE, "OTEL_SDK_DISABLED": "True"}, [], [], id="disabled"),
        pytest.param(
            {**NO_EXPORT, "OTEL_TRACES_EXPORTER": " Console , none"},
            ["traces"],
            ["traces"],
            id="a list in any case",
        ),
        pytest.param(
            {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
            ["traces"],
            ["traces"],
            id="empty is unset",
        ),
    ],
)
def test_the_variables_choose_what_is_exported(run, env, signals, installed):
    code = "report(signals=setup_telemetry().signals, installed=installed()); os._exit(0)"
    result = run(code, **env)
    assert result.report == {"signals": signals, "installed": installed}


@pytest.mark.parametrize(
    ("arguments", "env", "service_name"),
    [
        pytest.param("", {}, "unknown_service:python", id="nothing"),
        pytest.param("", {"OTEL_SERVICE_NAME": "env"}, "env", id="variable"),
        pytest.param("'arg'", {"OTEL_SERVICE_NAME": "env"}, "arg", id="argument wins"),
        pytest.param(
            "resource_attributes={'service.name': 'attr'}",
            {"OTEL_SERVICE_NAME": "env"},
            "attr",
            id="resource attribute",
        ),
        pytest.param(
            "", {"OTEL_RESOURCE_ATTRIBUTES": "service.name=res"}, "res", id="resource variable"
        ),
        pytest.param("'arg'", {"OTEL_SDK_DISABLED": "true"}, None, id="disabled"),
    ],
)
def test_service_name(run, arguments, env, service_name):
    result = run(f"report(name=setup_telemetry({arguments}).service_name)", **env)
    assert result.report == {"name": service_name}


def test_resource_attributes_are_added_to_those_of_the_variables(run):
    code = """
setup_telemetry("shop", resource_attributes={"service.version": "2", "a": "argument"})
attributes = trace.get_tracer_provider().resource.attributes
report(**{key: attributes.get(key) for key in ("service.version", "a", "b")})
"""
    result = run(code, OTEL_RESOURCE_ATTRIBUTES="a=variable,b=variable")
    assert result.report == {"service.version": "2", "a": "argument", "b": "variable"}


@pytest.mark.parametrize(
    ("second", "warnings"),
    [
        pytest.param("setup_telemetry('shop')", 0, id="same options"),
        pytest.param("setup_telemetry('other'); setup_telemetry('third')", 1, id="other options"),
    ],
)
def test_a_second_call_returns_the_first_handle(run, second, warnings):
    result = run(
        f"first = setup_telemetry('shop'); {second}\nreport(same=first is setup_telemetry('shop'))"
    )
    assert result.report == {"same": True}
    assert len(result.lines("called before with other options")) == warnings


@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
def test_a_provider_of_the_application_stays(run, signal):
    code = f"""
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
own, set, get = {{
    "traces": (TracerProvider(), trace.set_tracer_provider, trace.get_tracer_provider),
    "metrics": (MeterProvider(), metrics.set_meter_provider, metrics.get_meter_provider),
    "logs": (LoggerProvider(), set_logger_provider, get_logger_provider),
}}["{signal}"]
set(own)
telemetry = setup_telemetry()
report(stays=get() is own, signals=telemetry.signals, installed=installed())
"""
    result = run(code, **CONSOLE)
    others = [name for name in ("traces", "metrics", "logs") if name != signal]
    assert result.report == {
        "stays": True,
        "signals": others,
        "installed": ["traces", "metrics", "logs"],
    }
    assert len(result.lines(f"OpenTelemetry is set up already for {signal};")) == 1
    assert not result.lines("Overriding")


@pytest.mark.parametrize(
    ("env", "signals", "warning"),
    [
        pytest.param(
            {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
            ["metrics", "logs"],
            "traces are not exported: max_queue_size must be a positive integer.",
            id="queue size",
        ),
        pytest.param(
            {"OTEL_METRIC_EXPORT_INTERVAL": "0"},
            ["traces", "logs"],
            "metrics are not exported: interval value 0.0 is invalid",
            id="interval",
        ),
        pytest.param(
            {"OTEL_LOGS_EXPORTER": "pigeon"},
            ["traces", "metrics"],
            "logs are not exported to 'pigeon': set OTEL_LOGS_EXPORTER to otlp, console or none",
            id="exporter",
        ),
        pytest.param(
            {
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
            },
            ["metrics", "logs"],
            "traces are not exported to otlp: could not convert string to float: 'soon'",
            id="timeout",
        ),
        pytest.param(
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            ["traces", "metrics", "logs"],
            "OTEL_EXPORTER_OTLP_PROTOCOL 'http/json' is not known; traces go out as http/protobuf",
            id="protocol",
        ),
    ],
)
def test_a_wrong_variable_costs_its_signal_and_a_warning(run, env, signals, warning):
    code = "report(signals=setup_telemetry().signals); os._exit(0)"
    result = run(code, **CONSOLE | env)
    assert result.report == {"signals": signals}
    assert len(result.lines(warning)) == 1


def test_a_protocol_that_does_not_exist_is_refused(run):
    code = """
from toolmend.errors import PolicyError
try:
    setup_telemetry(protocol="carrier-pigeon")
except PolicyError as error:
    report(error=str(error), installed=installed())
"""
    assert run(code).report == {
        "error": "protocol is 'carrier-pigeon'; give one of http/protobuf, grpc",
        "installed": [],
    }


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        pytest.param("opentelemetry.sdk.resources", "", id="SDK"),
        pytest.param(
            "opentelemetry.exporter.otlp.proto.http._log_exporter", "", id="HTTP exporter"
        ),
        pytest.param(
            "opentelemetry.exporter.otlp.proto.grpc.metric_exporter",
            "protocol='grpc'",
            id="gRPC exporter",
        ),
    ],
)
def test_a_missing_extra_is_named_and_leaves_nothing_half_set_up(run, missing, arguments):
    code = f"""
from toolmend.errors import MissingExtraError
sys.modules["{missing}"] = None
try:
    setup_telemetry({arguments})
except MissingExtraError as error:
    report(extra=error.extra, installed=installed(), configured=structlog.is_configured())
"""
    otlp = {f"OTEL_{signal}_EXPORTER": "otlp" for signal in ("TRACES", "METRICS", "LOGS")}
    result = run(code, **otlp)
    assert result.report == {"extra": "otlp", "installed": [], "configured": False}


def test_a_disabled_sdk_need_not_be_installed(run):
    code = "sys.modules['opentelemetry.sdk.resources'] = None\nreport(signals=setup_telemetry().signals)"
    assert run(code, OTEL_SDK_DISABLED="true").report == {"signals": []}


def test_the_handle(run):
    code = """
import dataclasses
with setup_telemetry("shop") as telemetry:
    flushed = telemetry.force_flush()
try:
    telemetry.signals = ()
except dataclasses.FrozenInstanceError:
    frozen = True
report(
    flushed=flushed, frozen=frozen, again=telemetry.shutdown(), after=telemetry.force_flush(), repr=repr(telemetry)
)
"""
    assert run(code, **CONSOLE).report == {
        "flushed": True,
        "frozen": True,
        "again": True,
        "after": False,
        "repr": "Telemetry(service_name='shop', signals=('traces', 'metrics', 'logs'))",
    }


def test_structlog_without_a_configuration_writes_json_to_standard_error(run):
    code = """
setup_telemetry("shop")
structlog.contextvars.bind_contextvars(request=7)
with trace.get_tracer("shop").start_as_current_span("buy") as span:
    structlog.get_logger().warning("order_paid", order=42)
structlog.get_logger().debug("unseen")
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger().exception("order_lost")
report(trace_id=trace.format_trace_id(span.get_span_context().trace_id))
"""
    result = run(code)
    paid, lost = (json.loads(line) for line in result.stderr.splitlines())
    assert paid["trace_id"] == result.report["trace_id"]
    assert {key: paid[key] for key in ("event", "level", "order", "request")} == {
        "event": "order_paid",
        "level": "warning",
        "order": 42,
        "request": 7,
    }
    assert paid.keys() - {"event", "level", "order", "request", "trace_id"} == {
        "span_id",
        "timestamp",
    }
    assert "ZeroDivisionError" in lost["exception"]


def test_structlog_on_a_terminal_writes_for_people(run):
    code = """
class Terminal:
    def isatty(self): return True
    def write(self, text): lines.append(text)
    def flush(self): pass
lines = []
sys.stderr = Terminal()
setup_telemetry("shop")
structlog.get_logger().warning("order_paid", order=42)
report(text="".join(lines))
"""
    assert "order_paid" in (text := run(code).report["text"])
    assert not text.startswith("{")


CONFIGURED = """
def render(_logger, _method, event):
    rendered.append(dict(event))
    raise structlog.DropEvent
def stamp(_logger, _method, event):
    return event | {"stamped": True}
rendered = []
"""


@pytest.mark.parametrize("kind", ["list", "tuple"])
def test_structlog_with_a_configuration_gets_one_processor_before_its_renderer(run, kind):
    code = f"""{CONFIGURED}
structlog.configure(processors={kind}([stamp, render]), wrapper_class=structlog.BoundLogger)
setup_telemetry(); setup_telemetry()
structlog.get_logger().warning("order_paid", order=42)
chain = structlog.get_config()
report(
    chain=[getattr(each, "__name__", type(each).__name__) for each in chain["processors"]],
    wrapper=chain["wrapper_class"].__name__,
    rendered=rendered,
)
"""
    assert run(code, **NO_EXPORT).report == {
        "chain": ["stamp", "OpenTelemetryProcessor", "render"],
        "wrapper": "BoundLogger",
        "rendered": [{"event": "order_paid", "order": 42, "stamped": True}],
    }


def test_loggers_that_structlog_cached_before_are_exported_too(run):
    code = f"""{CONFIGURED}
structlog.configure(processors=[stamp, render], cache_logger_on_first_use=True)
log = structlog.get_logger()
log.warning("before")
setup_telemetry()
log.warning("order_paid")
report()
"""
    result = run(code, **CONSOLE)
    assert result.lines('"event_name": "order_paid"')
    assert not result.lines('"event_name": "before"')


def test_events_that_a_root_handler_exports_are_not_exported_twice(run):
    code = f"""{CONFIGURED}
class Handler(logging.NullHandler):
    __module__ = "opentelemetry.instrumentation.logging.handler"
logging.getLogger().addHandler(Handler())
structlog.configure(processors=[render], logger_factory=structlog.stdlib.LoggerFactory())
setup_telemetry()
report(processors=len(structlog.get_config()["processors"]))
"""
    result = run(code)
    assert result.report == {"processors": 1}
    assert len(result.lines("already reach OpenTelemetry")) == 1


def test_without_logs_structlog_is_not_touched(run):
    code = """
telemetry = setup_telemetry(logs=False)
setup_telemetry(logs=False)
report(signals=telemetry.signals, configured=structlog.is_configured(), installed=installed())
"""
    assert run(code, **CONSOLE).report == {
        "signals": ["traces", "metrics"],
        "configured": False,
        "installed": ["traces", "metrics"],
    }


@pytest.mark.parametrize(
    ("logging_setup", "heard"),
    [
        pytest.param("pass", 1, id="logging not configured"),
        pytest.param("logging.basicConfig()", 1, id="configured"),
        pytest.param("logging.basicConfig(level=logging.ERROR)", 0, id="errors only"),
        pytest.param("logging.getLogger('toolmend').propagate = False", 0, id="silenced"),
        pytest.param("logging.getLogger('toolmend').setLevel('ERROR')", 0, id="level"),
        pytest.param("logging.lastResort = None", 0, id="no last resort"),
    ],
)
def test_a_warning_is_heard_unless_the_application_says_otherwise(run, logging_setup, heard):
    code = f"{logging_setup}; setup_telemetry(); setup_telemetry('other'); report()"
    assert len(run(code).lines("called before with other options")) == heard
