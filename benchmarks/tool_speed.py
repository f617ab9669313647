"""What a guard costs on the happy path, as ratios: `python -m benchmarks.tool_speed`.

In one run, interleaved, garbage collection off, medians: the bare tool, the tool under tenacity alone, the tool under
`toolmend.tool_call`, each sync and async; without an SDK, and with an SDK that keeps metrics and spans in memory. A
comparison counts only when each variant ran the tool as often as asked, and the SDK saw one span per guarded call.

    a guarded call costs less than 100 µs, scaled by how this machine compares: at most 40 times one
    addition to a counter of the SDK
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import tenacity
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

import toolmend
from toolmend.telemetry.signals import using

CALLS, ROUNDS = 200, 15
LIMIT = (
    40.0  # times one addition to a counter: 6.6 µs where the 100 µs were set, with slack for noise
)


class Ran:
    """How often the tool ran."""

    calls = 0


def bare(city: str, days: int = 3) -> str:  # noqa: ARG001 - a tool takes something
    Ran.calls += 1
    return city


async def bare_async(city: str, days: int = 3) -> str:  # noqa: ARG001 - a tool takes something
    Ran.calls += 1
    return city


tenacious = tenacity.retry(stop=tenacity.stop_after_attempt(3))(bare)
tenacious_async = tenacity.retry(stop=tenacity.stop_after_attempt(3))(bare_async)
guarded = toolmend.tool_call(effect="read")(bare)
guarded_async = toolmend.tool_call(effect="read")(bare_async)


def sync_round(tool: Callable[..., Any]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        tool(city="Lisbon", days=2)
    return (time.perf_counter() - began) / CALLS


def async_round(tool: Callable[..., Any]) -> float:
    async def calls() -> float:
        began = time.perf_counter()
        for _ in range(CALLS):
            await tool(city="Lisbon", days=2)
        return (time.perf_counter() - began) / CALLS

    return asyncio.run(calls())


def medians(
    *rounds: tuple[Callable[[Callable[..., Any]], float], Callable[..., Any]],
) -> list[float]:
    """Run the variants one after the other, again and again."""
    seconds: list[list[float]] = [[] for _ in rounds]
    for measure, tool in rounds:
        measure(tool)
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for (measure, tool), kept in zip(rounds, seconds, strict=True):
                Ran.calls = 0
                kept.append(measure(tool))
                assert Ran.calls == CALLS
    finally:
        gc.enable()
    return [statistics.median(kept) for kept in seconds]


VARIANTS = (
    ("sync", "bare", sync_round, bare),
    ("sync", "tenacity", sync_round, tenacious),
    ("sync", "toolmend", sync_round, guarded),
    ("async", "bare", async_round, bare_async),
    ("async", "tenacity", async_round, tenacious_async),
    ("async", "toolmend", async_round, guarded_async),
)


def measured() -> dict[tuple[str, str], float]:
    found = medians(*((measure, tool) for *_, measure, tool in VARIANTS))
    return {(kind, name): one for (kind, name, *_), one in zip(VARIANTS, found, strict=True)}


def main() -> int:
    with using(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()):
        without = measured()
    spans = InMemorySpanExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    with using(tracer_provider=tracers, meter_provider=meters):
        with_sdk = measured()
    guarded_calls = 2 * CALLS * (ROUNDS + 1)
    assert len(spans.get_finished_spans()) == guarded_calls, "one span per guarded call"
    counter = meters.get_meter("bench").create_counter("additions")
    labels = {"tool": "bare", "outcome": "ok"}
    [addition] = medians_of(lambda: counter.add(1, labels))

    print(f"{'':26}{'µs':>9}{'to bare':>10}{'to tenacity':>13}")
    is_fine = True
    for title, table in (("no SDK", without), ("SDK: metrics and spans", with_sdk)):
        print(title)
        for (kind, name), seconds in table.items():
            to_bare = seconds / table[kind, "bare"]
            to_tenacity = seconds / table[kind, "tenacity"]
            print(f"  {kind:6} {name:16} {seconds * 1e6:9.1f}{to_bare:10.1f}{to_tenacity:13.2f}")
    print(f"one addition to a counter {addition * 1e6:8.1f}")
    for (kind, name), seconds in with_sdk.items():
        if name == "toolmend":
            added = (seconds - with_sdk[kind, "bare"]) / addition
            is_met = added <= LIMIT
            is_fine = is_fine and is_met
            verdict = "ok  " if is_met else "OVER"
            print(f"{verdict} {kind}: a guarded call adds {added:.1f} additions, limit {LIMIT:.0f}")
    return 0 if is_fine else 1


def medians_of(operation: Callable[[], None]) -> list[float]:
    kept = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            operation()
        kept.append((time.perf_counter() - began) / CALLS)
    return [statistics.median(kept)]


if __name__ == "__main__":
    sys.exit(main())
