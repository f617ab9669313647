"""A past for Prometheus to be filled with: services with a day behind them, and an incident now.

``job="past"`` has asked for 20 tool calls a minute for 26 hours and lost 3 % of them. In its last
40 minutes everything goes wrong at once, so that every alert has a reason: its guarded tool fails,
too, in every way that there is. ``job="gone"`` sent its last sample 40 minutes ago.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate

from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

MINUTE = 60
HOURS = 26
INCIDENT_MINUTES = 40
PAST = {"job": "past", "instance": "one"}

# What becomes of the calls of a guarded tool in a minute: before the incident, and in it.
EXECUTED = {
    ("ok", ""): (20, 5),
    ("failed", "transient"): (0, 6),
    ("degraded", "transient"): (0, 3),
    ("abandoned", "timeout"): (0, 1),
    ("cancelled", "cancelled"): (0, 2),
}


@dataclass
class Series:
    """One series, minute by minute, from the first on."""

    metric: names.Metric
    labels: dict
    values: list = field(default_factory=list)
    suffix: str = ""


def write_past(file, now):
    """Write the samples up to the last whole minute before ``now``, a Unix time, as OpenMetrics."""
    end = int(now) // MINUTE * MINUTE
    minutes = HOURS * 60
    times = [end - (minutes - 1 - number) * MINUTE for number in range(minutes)]
    found = [*_past(minutes), *_tools(minutes), *_gone(minutes)]
    with file.open("w") as out:
        for metric in names.METRICS:
            mine = [series for series in found if series.metric is metric]
            if mine:
                name = prometheus_name(metric)
                out.write(f"# TYPE {name.removesuffix('_total')} {metric.kind}\n")
                for series in mine:
                    _write(out, name + series.suffix, series, times)
        out.write("# EOF\n")
    return times[0], end


def _past(minutes):
    dice = random.Random(3)
    began = minutes - INCIDENT_MINUTES

    def series(metric, per_minute, **labels):
        named = {getattr(names, name.upper()): value for name, value in labels.items()}
        made = Series(metric, {**PAST, **named})
        total = 0
        for minute in range(minutes):
            total += per_minute(minute >= began)
            made.values.append(total)
        return made

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


def _tools(minutes):
    began = minutes - INCIDENT_MINUTES

    def counter(metric, before, within, suffix="", **labels):
        named = {**PAST, names.TOOL: "search", **labels}
        steps = [before] * began + [within] * (minutes - began)
        return Series(metric, named, list(accumulate(steps)), suffix)

    def gauge(metric, before, within, **labels):
        named = {**PAST, names.TOOL: "search", **labels}
        return Series(metric, named, [before] * began + [within] * (minutes - began))

    for (outcome, error), each in EXECUTED.items():
        labels = {names.OUTCOME: outcome, **({names.ERROR_TYPE: error} if error else {})}
        yield counter(names.TOOL_CALLS_EXECUTED, *each, **labels)
    # All calls took up to 20 ms; in the incident most wait for more than a second.
    for bound in names.TOOL_DURATION.buckets:
        within = 17 if bound >= 1.28 else 5 if bound >= 0.02 else 0
        yield counter(
            names.TOOL_DURATION, 20 if bound >= 0.02 else 0, within, "_bucket", le=f"{bound:g}"
        )
    yield counter(names.TOOL_DURATION, 20, 17, "_bucket", le="+Inf")
    yield counter(names.TOOL_DURATION, 20, 17, "_count")
    yield counter(names.TOOL_DURATION, 0.3, 15, "_sum")
    yield counter(names.TOOL_CALLS_RETRIED, 0, 9, **{names.ERROR_TYPE: "transient"})
    yield gauge(names.TOOL_CALLS_ABANDONED, 0, 2)
    for state in names.BREAKER_STATES:
        is_now = (int(state == "closed"), int(state == "open"))
        yield gauge(names.BREAKER_STATE, *is_now, **{names.STATE: state})
    for here, there, reason in (
        ("open", "half_open", "waited"),
        ("half_open", "open", "probe_failed"),
    ):
        changed = {names.FROM: here, names.TO: there, names.REASON: reason}
        yield counter(names.BREAKER_TRANSITIONS, 0, 1, **changed)
    yield counter(names.FALLBACKS, 0, 3, **{names.KIND: "default"})


def _gone(minutes):
    values = [2 * minute for minute in range(minutes - INCIDENT_MINUTES)]
    labels = {"job": "gone", "instance": "two", names.MODEL: "gpt-past", names.PROVIDER: "openai"}
    ended = {names.FORMAT: "openai-chat", names.OUTCOME: "clean"}
    yield Series(names.MODEL_CALLS, {**labels, **ended}, values)
    yield Series(names.TOOL_CALLS_REQUESTED, {**labels, names.TOOL: "search"}, values)


def _write(out, name, series, times):
    labels = ",".join(
        f'{prometheus_label(label)}="{value}"' for label, value in series.labels.items()
    )
    out.writelines(
        f"{name}{{{labels}}} {value} {time}\n"
        for time, value in zip(times, series.values, strict=False)
    )
