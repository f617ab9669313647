"""What an application emits arrives through a real collector, over both protocols, correlated."""

from __future__ import annotations

import pytest

from tests.services.otlp_sink import plain

SIGNALS = ("traces", "metrics", "logs")
PROTOCOLS = ("http/protobuf", "grpc")


@pytest.mark.service("otelcol")
@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_three_signals_arrive_correlated(
    start, collector, collector_sink, protocol, compression
):
    service = f"export-{protocol}-{compression}"
    ended = start(
        service_name=service,
        protocol=protocol,
        endpoint=collector.endpoints[protocol],
        env={"OTEL_EXPORTER_OTLP_COMPRESSION": compression},
    ).wait()
    assert (ended.code, ended.stdout) == (0, "")

    found = collector_sink.wait_for(service, *SIGNALS)
    [span], [metric], [record] = (found[signal] for signal in SIGNALS)
    assert {arrived.scope.name for arrived in (span, metric, record)} == {"toolmend"}
    assert span.item.name == "toolmend.model_call"
    assert span.item.trace_id.hex() == ended.report["trace_id"]

    assert metric.item.name == "toolmend.model_calls"
    [point] = metric.item.sum.data_points
    assert (point.as_int, plain(point.attributes)) == (1, {"toolmend.outcome": "repaired"})

    assert record.item.event_name == "tool_calls_mended"
    assert record.item.severity_text == "WARN"
    assert record.item.trace_id == span.item.trace_id
    assert record.item.span_id == span.item.span_id
    assert plain(record.item.attributes) == {
        "event.name": "tool_calls_mended",
        "gen_ai.request.model": "gpt-4o",
        "toolmend.tools": ("search",),
        "toolmend.repairs.patched": 1,
    }


@pytest.mark.service("otelcol")
def test_each_signal_may_take_its_own_way(start, collector, collector_sink):
    http, grpc = collector.endpoints["http/protobuf"], collector.endpoints["grpc"]
    start(
        env={
            "OTEL_SERVICE_NAME": "mixed",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_ENDPOINT": grpc,
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{http}/v1/logs",
        }
    ).wait()
    collector_sink.wait_for("mixed", *SIGNALS)
