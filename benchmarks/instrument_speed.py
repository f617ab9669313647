"""What instrument() adds to a call, beside other instrumentations: `python -m benchmarks.instrument_speed`.

A chat completion of the openai SDK against a transport that answers at once, with an SDK that keeps spans and metrics
in memory. One process for each instrumentation, since some cannot be taken off and stacked wrappers measure each other;
the processes take turns in rounds, and what counts is the median of the differences to the bare one of the same round,
in processor time, which other work on the machine leaves alone. Garbage collection is frozen. A comparison counts only when each instrumentation emitted one span per call.

Run it where the others are: `.ci/build-environments` makes the environment `neighbours`. Those that are not there are
left out. genai-openai is shown and not raced: as it comes it looks at no message.

    toolmend adds less than the cheapest of those that look at the messages
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import json
import logging
import os
import statistics
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

import openai
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolmend

ROUNDS = 31
RECORDING = ("openinference", "openllmetry")
CALLS = {20: 30, 1_000: 3}
"""Calls in a round, by the number of messages."""
OTHERS = {
    "genai-openai": "opentelemetry.instrumentation.genai.openai",
    "openinference": "openinference.instrumentation.openai",
    "openllmetry": "opentelemetry.instrumentation.openai",
}
ANSWER = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "ok"},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


def history(length: int) -> list[dict[str, Any]]:
    """Return turns of a question, a call, its result and an answer."""
    turns: list[dict[str, Any]] = []
    for turn in range(length // 4):
        call = {"name": "weather", "arguments": '{"city": "Lisbon", "days": 3}'}
        turns += [
            {"role": "user", "content": "What is the weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": "sunny"},
            {"role": "assistant", "content": "It is sunny."},
        ]
    return [*turns[:-1], {"role": "user", "content": "Thanks."}]


class Worker(NamedTuple):
    """A process with one instrumentation, and the pipes to it."""

    name: str
    orders: Any
    answers: Any
    process: int

    def ask(self, length: int) -> tuple[float, int]:
        """Return the seconds of a call in a round of calls, and the spans of the round."""
        self.orders.write(f"{length}\n")
        self.orders.flush()
        seconds, spans = json.loads(self.answers.readline())
        return seconds, spans


def worker(name: str) -> Worker:
    """Start a process that measures a round for each line it reads."""
    order_reading, order_writing = os.pipe()
    answer_reading, answer_writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(order_writing)
        os.close(answer_reading)
        with suppress(KeyboardInterrupt):
            serve(name, os.fdopen(order_reading), os.fdopen(answer_writing, "w"))
        os._exit(0)
    os.close(order_reading)
    os.close(answer_writing)
    return Worker(name, os.fdopen(order_writing, "w"), os.fdopen(answer_reading), process)


def serve(name: str, orders: Any, answers: Any) -> None:
    logging.disable()  # some warn of each attribute beyond the limit of a span
    spans = InMemorySpanExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))
    if name == "toolmend":
        toolmend.instrument()
    elif name != "bare":
        module = importlib.import_module(OTHERS[name])
        module.OpenAIInstrumentor().instrument(skip_dep_check=True)
    http = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__.split(".")[0])
    answer = {"content": ANSWER, "headers": {"content-type": "application/json"}}
    transport = http.MockTransport(lambda _: http.Response(200, **answer))
    client = openai.OpenAI(api_key="k", http_client=http.Client(transport=transport))
    histories: dict[int, Any] = {length: history(length) for length in CALLS}
    gc.collect()
    gc.freeze()
    gc.disable()
    for line in orders:
        length = int(line)
        spans.clear()
        began = time.process_time()
        for _ in range(CALLS[length]):
            client.chat.completions.create(model="m", messages=histories[length])
        seconds = (time.process_time() - began) / CALLS[length]
        answers.write(json.dumps([seconds, len(spans.get_finished_spans())]) + "\n")
        answers.flush()
        gc.collect()


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def added(workers: list[Worker], length: int) -> dict[str, float]:
    """Return the seconds that each instrumentation adds to a call, and those of the bare call."""
    for each in workers:
        each.ask(length)
    rounds: dict[str, list[float]] = {each.name: [] for each in workers}
    for number in range(ROUNDS):
        # Each starts a round in turn, so that nobody always runs behind the same one.
        first = number % len(workers)
        for each in itertools.chain(workers[first:], workers[:first]):
            seconds, spans = each.ask(length)
            expected = 0 if each.name == "bare" else CALLS[length]
            assert spans == expected, f"{each.name}: {spans} spans, not {expected}"
            rounds[each.name].append(seconds)
    bare = rounds.pop("bare")
    differences = {
        name: statistics.median(one - other for one, other in zip(own, bare, strict=True))
        for name, own in rounds.items()
    }
    return {"bare": statistics.median(bare), **differences}


def main() -> int:
    others = [name for name, module in OTHERS.items() if is_there(module)]
    workers = [worker(name) for name in ("bare", "toolmend", *others)]
    is_fine = True
    try:
        print(f"{'messages':>8}  {'µs':16}" + "".join(f"{each.name:>15}" for each in workers))
        for length in CALLS:
            found = added(workers, length)
            cells = "".join(f"{seconds * 1e6:15.0f}" for seconds in found.values())
            print(f"{length:8}  {'bare, then added':16}{cells}")
            recording = [found[name] for name in RECORDING if name in found]
            if recording:
                cheapest = min(recording)
                ratio = found["toolmend"] / cheapest
                is_fine = is_fine and ratio < 1
                verdict = "ok  " if ratio < 1 else "OVER"
                print(
                    f"{verdict} {length} messages: {ratio:.2f} of what the cheapest other one adds"
                )
    finally:
        # A later one has the pipes of the earlier ones open, too.
        for each in workers:
            each.orders.close()
        for each in reversed(workers):
            os.waitpid(each.process, 0)
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
