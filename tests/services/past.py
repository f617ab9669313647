"""A past for Prometheus to be filled with: services with a day behind them, and an incident now.

``job="past"`` has asked for 20 tool calls a minute for 26 hours and lost 3 % of them. In its last
40 minutes everything goes wrong at once, so that every alert has a reason. ``job="gone"`` sent its
last sample 40 minutes ago.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

MINUTE = 60
HOURS = 26
INCIDENT_MINUTES = 40


@dataclass
class Counter:
    """One series, minute by minute; None where it has no sample."""

    metric: names.Metric
    labels: dict
    values: list = field(default_factory=list)


def write_past(file, now):
    """Write the samples up to the last whole minute before ``now``, a Unix time, as OpenMetrics."""
    end = int(now) // MINUTE * MINUTE
    minutes = HOURS * 60
    times = [end - (minutes - 1 - number) * MINUTE for number in range(minutes)]
    counters = [*_past(minutes), *_gone(minutes)]
    with file.open("w") as out:
        for metric in names.METRICS:
            mine = [counter for counter in counters if counter.metric is metric]
            if mine:
                name = prometheus_name(metric)
                out.write(f"# TYPE {name.removesuffix('_total')} counter\n")
                for counter in mine:
                    _write(out, name, counter, times)
        out.write("# EOF\n")
    return times[0], end


def _past(minutes):
    dice = random.Random(3)
    began = minutes - INCIDENT_MINUTES

    def series(metric, per_minute, **labels):
        named = {getattr(names, name.upper()): value for name, value in labels.items()}
        counter = Counter(metric, {"job": "past", "instance": "one", **named})
        total = 0
        for minute in range(minutes):
            total += per_minute(minute >= began)
            counter.values.append(total)
        return counter

    def lost(is_broken):
        return sum(dice.random() < (0.5 if is_broken else 0.03) for _ in range(20))

    def only(count):
        return lambda is_broken: count if is_broken else 0

    named = {"model": "gpt-past", "provider": "openai"}
    return [
        series(names.MODEL_CALLS, lambda _: 30, **named, format="openai-chat", outcome="clean"),
        series(names.REJECTIONS, only(1), **named, outcome="clean"),
        series(names.TOOL_CALLS_REQUESTED, lambda _: 20, **named, tool="search"),
        series(names.TOOL_CALLS_DANGLING, lost, **named, tool="search", recurrence="first"),
        series(names.TOOL_CALLS_DANGLING, only(60), **named, tool="search", recurrence="repeat"),
        series(names.FAULTS, only(1), where="repair"),
    ]


def _gone(minutes):
    values = [2 * minute for minute in range(minutes - INCIDENT_MINUTES)]
    labels = {"job": "gone", "instance": "two", names.MODEL: "gpt-past", names.PROVIDER: "openai"}
    ended = {names.FORMAT: "openai-chat", names.OUTCOME: "clean"}
    yield Counter(names.MODEL_CALLS, {**labels, **ended}, values)
    yield Counter(names.TOOL_CALLS_REQUESTED, {**labels, names.TOOL: "search"}, values)


def _write(out, name, counter, times):
    labels = ",".join(
        f'{prometheus_label(label)}="{value}"' for label, value in counter.labels.items()
    )
    out.writelines(
        f"{name}{{{labels}}} {value} {time}\n"
        for time, value in zip(times, counter.values, strict=False)
    )
