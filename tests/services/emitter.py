"""A small application, run as a process of its own: sets telemetry up, emits one of each, and ends.

Its orders come in ``EMITTER`` as JSON; it writes what it did to the file named there, not to its
standard output, which must stay empty.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import structlog
from opentelemetry import metrics, trace

from toolmend.telemetry.setup import setup_telemetry


def emit(count):
    tracer = trace.get_tracer("toolmend", "0")
    counter = metrics.get_meter("toolmend", "0").create_counter("toolmend.model_calls", "{call}")
    log = structlog.get_logger()
    for _ in range(count):
        with tracer.start_as_current_span("toolmend.model_call") as span:
            counter.add(1, {"toolmend.outcome": "repaired"})
            log.warning(
                "tool_calls_mended", model="gpt-4o", tools=["search"], counts={"patched": 1}
            )
    return span.get_span_context()


def main():
    orders = json.loads(os.environ["EMITTER"])
    telemetry = setup_telemetry(**orders["setup"])
    report = {"signals": telemetry.signals}
    if orders.get("flush_first"):
        emit(1)
        report["flushed"] = telemetry.force_flush(timeout_seconds=0.5)
    child = os.fork() if orders["end"] == "fork" else None
    span_context = emit(orders.get("count", 1))
    report |= {
        "trace_id": trace.format_trace_id(span_context.trace_id),
        "span_id": trace.format_span_id(span_context.span_id),
        "done": time.monotonic(),
    }
    if child == 0:
        sys.exit(0)
    Path(orders["report"]).write_text(json.dumps(report))
    if child:
        os.waitpid(child, 0)
    if orders["end"] == "exit":
        sys.exit(3)
    if orders["end"] == "raise":
        raise RuntimeError("the application failed")
    if orders["end"] == "with":
        with telemetry:
            pass
    if orders["end"] == "flush":
        report["flushed"] = telemetry.force_flush()
        Path(orders["report"]).write_text(json.dumps(report))
        os._exit(0)


main()
