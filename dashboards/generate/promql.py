"""PromQL, spelled with the names of the telemetry contract, and the one formula that counts sparse counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.telemetry import names
from toolmend.telemetry.names import Metric, prometheus_label, prometheus_name

if TYPE_CHECKING:
    from collections.abc import Iterable

JOB = "job"
"""What the OTLP receiver makes of `service.namespace`/`service.name`."""
MODEL = prometheus_label(names.MODEL)
PROVIDER = prometheus_label(names.PROVIDER)
TOOL = prometheus_label(names.TOOL)
THREAD = prometheus_label(names.THREAD)
FORMAT = prometheus_label(names.FORMAT)
OUTCOME = prometheus_label(names.OUTCOME)
RECURRENCE = prometheus_label(names.RECURRENCE)
CAUSE = prometheus_label(names.CAUSE)
FINDING = prometheus_label(names.FINDING)
ACTION = prometheus_label(names.ACTION)
WHERE = prometheus_label(names.WHERE)
ERROR_TYPE = prometheus_label(names.ERROR_TYPE)
STATE = prometheus_label(names.STATE)
FROM = prometheus_label(names.FROM)
TO = prometheus_label(names.TO)
REASON = prometheus_label(names.REASON)
KIND = prometheus_label(names.KIND)

FIRST = f'{RECURRENCE}="first"'
REPEAT = f'{RECURRENCE}="repeat"'
FAILING = f'{OUTCOME}=~"failed|degraded|abandoned"'
"""Executions that did not end well. A degraded answer helps the model; the tool failed all the same."""
SETTLED = f'{OUTCOME}!="cancelled"'
"""Executions that say something about the tool: a caller who cancels says nothing, for or against."""

AT_WORK = (
    '{__name__=~"'
    + "|".join(prometheus_name(metric) for metric in (names.MODEL_CALLS, names.TOOL_CALLS_EXECUTED))
    + '"}'
)
"""What a service at work shows: it asks models, runs guarded tools, or both."""

_MEMORY = "1d"
"""How long a silent series is remembered: one that comes back within it is not counted as new."""


def series(metric: Metric, *matchers: str, suffix: str = "") -> str:
    """Return a selector: the metric's series name and its matchers.

    Args:
        metric: an instrument of the contract.
        matchers: as `job="a"`; empty ones are left out.
        suffix: `_bucket`, `_sum` or `_count` of a histogram.
    """
    inside = ",".join(matcher for matcher in matchers if matcher)
    return prometheus_name(metric) + suffix + (f"{{{inside}}}" if inside else "")


def added(
    metric: Metric,
    window: str,
    *matchers: str,
    by: Iterable[str] = (),
    only_if: str = "",
    suffix: str = "",
) -> str:
    """Return how much was added to a counter within a window, to the call.

    `increase()` never sees the first value of a series and extrapolates between the others. These
    counters are sparse and have many labels, so most of what they count would be lost. Here a series
    counts with its last value in the window, less its last value before the window; one that was not
    there before counts whole, also when it has ended since (a short-lived process). A counter that was
    reset falls back to `increase()`.

    Args:
        metric: a counter, or a histogram.
        window: as `15m`.
        matchers: which series.
        by: the labels to keep; none sums all up.
        only_if: what must have been there before, per job, for a birth to count; else the first
            scrape of an old process would look like an event.
        suffix: `_bucket` or `_count` of a histogram.
    """
    selected = series(metric, *matchers, suffix=suffix)
    now = f"last_over_time({selected}[{window}])"
    before = f"last_over_time({selected}[{_MEMORY}] offset {window})"
    born = f"{now} unless {before}"
    if only_if:
        born += f" and on ({JOB}) last_over_time({only_if}[{_MEMORY}] offset {window})"
    return f"{sum_by(by)}((({now} - {before}) >= 0) or ({born}) or increase({selected}[{window}]))"


def rate(
    metric: Metric, window: str, *matchers: str, by: Iterable[str] = (), suffix: str = ""
) -> str:
    """Return the rate of a counter, per second, summed up."""
    return f"{sum_by(by)}(rate({series(metric, *matchers, suffix=suffix)}[{window}]))"


def sum_by(labels: Iterable[str]) -> str:
    """Return `sum` or `sum by (a, b) `."""
    kept = ", ".join(labels)
    return f"sum by ({kept}) " if kept else "sum"
