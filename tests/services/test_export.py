"""What an application emits leaves its process however that ends, as the OTEL_* variables say."""

from __future__ import annotations

import pytest

SIGNALS = ("traces", "metrics", "logs")


@pytest.fixture
def sinks(http_sink, grpc_sink):
    return {"http/protobuf": http_sink, "grpc": grpc_sink}


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize(
    ("end", "code"), [("return", 0), ("exit", 3), ("raise", 1), ("with", 0), ("flush", 0)]
)
def test_what_is_pending_leaves_when_the_process_ends(start, sinks, protocol, end, code):
    sink = sinks[protocol]
    ended = start(service_name="s", protocol=protocol, endpoint=sink.url, end=end).wait()
    assert (ended.code, ended.stdout) == (code, "")
    assert ended.report.get("flushed", True) is True
    sink.wait_for("s", *SIGNALS, seconds=0.1)


def test_a_forked_child_exports_its_own(start, http_sink):
    start(service_name="s", endpoint=http_sink.url, end="fork").wait()
    found = http_sink.wait_for("s", *SIGNALS, seconds=0.1)
    assert len(found["traces"]) == 2
    assert len({arrived.resource["service.instance.id"] for arrived in found["traces"]}) == 2


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_variables_of_opentelemetry_are_obeyed(start, sinks, protocol):
    sink = sinks[protocol]
    start(
        env={
            "OTEL_SERVICE_NAME": "from-variables",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=1",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_METRIC_EXPORT_INTERVAL": "50",
        }
    ).wait()
    found = sink.wait_for("from-variables", *SIGNALS, seconds=0.1)
    assert found["traces"][0].resource["deployment.environment.name"] == "test"
    assert {headers["x-key"] for headers in sink.headers} == {"1"}
    if protocol == "http/protobuf":  # gRPC does not tell its server
        assert {headers["content-encoding"] for headers in sink.headers} == {"gzip"}


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("spelling", ["http://{}", "http://{}/", "{}"])
def test_arguments_win_over_variables(start, sinks, protocol, spelling):
    sink = sinks[protocol]
    start(
        service_name="s",
        protocol=protocol,
        endpoint=spelling.format(sink.url.removeprefix("http://")),
        env={
            "OTEL_SERVICE_NAME": "not-this",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"
            if protocol == "http/protobuf"
            else "http/protobuf",
        },
    ).wait()
    sink.wait_for("s", *SIGNALS, seconds=0.1)


def test_a_sampled_out_trace_keeps_its_metrics_and_logs(start, http_sink):
    start(
        service_name="s", endpoint=http_sink.url, env={"OTEL_TRACES_SAMPLER": "always_off"}
    ).wait()
    found = http_sink.wait_for("s", "metrics", "logs", seconds=0.1)
    assert found["traces"] == []
