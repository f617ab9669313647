"""Applications with toolmend and another instrumentation of the same SDK; prints what came of each.

Run as ``python -m tests.integrations.sdks.neighbour_app CASES``: a JSON list of (module, class, client, order) lists, with the
order ``ours-first`` or ``ours-last``. Each is a process of its own, since some instrumentations leave their wrappers
behind; all are forks of one that has imported everything, which is what takes long.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import traceback
from contextlib import suppress
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolmend
from tests.integrations.sdks.clients import make_client, sdk_of
from tests.integrations.sdks.doors import CHAT, MESSAGES
from tests.integrations.sdks.histories import broken
from tests.integrations.sdks.wire import Wire
from tests.unit.telemetry_capture import Captured
from toolmend.telemetry.signals import using

PLACEHOLDER = "nothing came back"


def phase(client: Any, wire: Wire, seen: Captured) -> dict[str, Any]:
    """Ask twice, whole and as a stream, and tell what was sent and emitted."""
    doors = MESSAGES[0], MESSAGES[2]
    if "OpenAI" in type(client).__name__:
        doors = CHAT[0], CHAT[1]
    counted = seen.total("toolmend.model_calls"), seen.total("toolmend.tool_calls.dangling")
    seen.spans_exporter.clear()
    wire.sent.clear()
    for door in doors:
        with suppress(sdk_of(type(client).__name__).BadRequestError):
            asyncio.run(door.ask(client, broken(door.format)))
    spans = seen.spans
    names = {span.context.span_id: span.instrumentation_scope.name for span in spans}
    ours = [span for span in spans if span.instrumentation_scope.name == "toolmend"]
    theirs = [span for span in spans if span not in ours]
    return {
        "statuses": wire.statuses,
        "model_calls": seen.total("toolmend.model_calls") - counted[0],
        "dangling": seen.total("toolmend.tool_calls.dangling") - counted[1],
        "ours": [span.name for span in ours],
        "theirs": [span.name for span in theirs],
        "ours_inside": [
            bool(span.parent) and names.get(span.parent.span_id) != "toolmend" for span in ours
        ],
        "theirs_inside": [
            bool(span.parent) and names.get(span.parent.span_id) == "toolmend" for span in theirs
        ],
        "they_saw_the_repair": [
            PLACEHOLDER in json.dumps(dict(span.attributes)) for span in theirs
        ],
    }


def main(module: str, kind: str, name: str, order: str) -> dict[str, Any]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    seen = Captured(exporter, reader)
    wire = Wire()
    theirs = getattr(importlib.import_module(module), kind)()
    policy = toolmend.Policy(placeholder=PLACEHOLDER)

    def their_side() -> None:
        theirs.instrument(tracer_provider=tracers, skip_dep_check=True)

    with using(
        tracer_provider=tracers,
        meter_provider=MeterProvider([reader], shutdown_on_exit=False),
    ):
        client = make_client(name, wire)
        told = {"without": phase(client, wire, seen)}
        if order == "ours-last":
            their_side()
            toolmend.instrument(policy=policy)
        else:
            toolmend.instrument(policy=policy)
            their_side()
        told["both"] = phase(client, wire, seen)
        toolmend.uninstrument()
        told["ours-off"] = phase(client, wire, seen)
        toolmend.instrument(policy=policy)
        told["both-again"] = phase(client, wire, seen)
        theirs.uninstrument()
        told["theirs-off"] = phase(client, wire, seen)
        toolmend.instrument(policy=policy)
        told["ours-again"] = phase(client, wire, seen)
    return told


def forked(case: list[str]) -> str:
    """Return what main() gives in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        answer = "null"
        try:
            answer = json.dumps(main(*case))
        except BaseException:  # noqa: BLE001 - told, and the case has no answer
            traceback.print_exc()
        finally:
            with os.fdopen(writing, "w") as pipe:
                pipe.write(answer)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


if __name__ == "__main__":
    cases = json.loads(sys.argv[1])
    for module, *_ in cases:
        importlib.import_module(module)
    sys.stdout.write(f"[{', '.join(map(forked, cases))}]")
