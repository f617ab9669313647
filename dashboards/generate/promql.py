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

FIRST = f'{RECURRENCE}="first"'
REPEAT = f'{RECURRENCE}="repeat"'

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
    memory: str = _MEMORY,
    only_if: str = "",
) -> str:
    """Return how much was added to a counter within a window, with the series that were born in it.

    `increase()` never sees the first value of a series. These counters are sparse and have many
    labels, so most of what they count would be lost. A series that was not there before the window
    counts with its whole value; all others with their increase. Series that were born and ended
    within the window (a short-lived process) count too.

    Args:
        metric: a counter.
        window: as `15m`.
        matchers: which series.
        by: the labels to keep; none sums all up.
        memory: how long before the window a series is looked for.
        only_if: what must have been there before, per job, for a birth to count; else the first
            scrape of an old process would look like an event.
    """
    selected = series(metric, *matchers)
    born = f"last_over_time({selected}[{window}]) unless last_over_time({selected}[{memory}] offset {window})"
    if only_if:
        born += f" and on ({JOB}) last_over_time({only_if}[{memory}] offset {window})"
    return f"{sum_by(by)}(({born}) or increase({selected}[{window}]))"


def rate(
    metric: Metric, window: str, *matchers: str, by: Iterable[str] = (), suffix: str = ""
) -> str:
    """Return the rate of a counter, per second, summed up."""
    return f"{sum_by(by)}(rate({series(metric, *matchers, suffix=suffix)}[{window}]))"


def sum_by(labels: Iterable[str]) -> str:
    """Return `sum` or `sum by (a, b) `."""
    kept = ", ".join(labels)
    return f"sum by ({kept}) " if kept else "sum"
