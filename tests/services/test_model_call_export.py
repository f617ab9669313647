"""A decorated model call shows up behind a real collector: span, metrics and log events, correlated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.otlp_sink import plain

AGENT = Path(__file__).with_name("agent.py")


@pytest.mark.service("otelcol")
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_mended_conversation_arrives(collector, collector_sink, protocol):
    service = f"agent-{protocol}"
    orders = {
        "service_name": service,
        "protocol": protocol,
        "endpoint": collector.endpoints[protocol],
    }
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        "AGENT": json.dumps(orders),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, str(AGENT)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr

    found = collector_sink.wait_for(service, "traces", "metrics", "logs")
    assert {arrived.scope.name for signal in found.values() for arrived in signal} == {"toolmend"}
    assert "SECRET" not in repr(found)

    spans = [arrived.item for arrived in found["traces"]]
    assert [plain(span.attributes)["toolmend.outcome"] for span in spans] == [
        "clean",
        "repaired",
        "observed",
    ]
    mended, refused = spans[1], spans[2]
    assert plain(mended.attributes)["gen_ai.conversation.id"] == "conversation-42"
    assert plain(mended.attributes)["gen_ai.request.model"] == "gpt-x"
    [event] = mended.events
    assert event.name == "toolmend.finding"
    assert plain(event.attributes)["gen_ai.tool.name"] == "weather"
    assert plain(refused.attributes)["toolmend.rejected"] is True

    sums = {}
    for arrived in found["metrics"]:
        points = arrived.item.sum.data_points or arrived.item.histogram.data_points
        sums[arrived.item.name] = sum(
            getattr(point, "as_int", 0) or getattr(point, "count", 0) for point in points
        )
    assert sums == {
        "toolmend.model_calls": 3,
        "toolmend.rejections": 1,
        "toolmend.tool_calls.requested": 1,
        "toolmend.tool_calls.dangling": 2,
        "toolmend.dangling.causes": 1,
        "toolmend.threads.dangling": 1,
        "toolmend.repairs": 2,
        "toolmend.repair.duration": 3,
        "toolmend.faults": 0,
    }

    records = [arrived.item for arrived in found["logs"]]
    by_name = {record.event_name: record for record in records}
    assert set(by_name) == {"tool_calls_mended", "history_rejected"}
    assert by_name["tool_calls_mended"].trace_id == mended.trace_id
    assert by_name["tool_calls_mended"].span_id == mended.span_id
    assert by_name["history_rejected"].span_id == refused.span_id
    attributes = plain(by_name["tool_calls_mended"].attributes)
    assert attributes["gen_ai.conversation.id"] == "conversation-42"
    assert attributes["toolmend.repairs.patched"] == 1
    assert attributes["toolmend.causes"] == ("interrupted",)
