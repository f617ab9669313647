"""The page *What does each metric mean?*, made of the names module and of the boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend._boards.reading import read_board
from toolmend.mending.findings import KINDS
from toolmend.telemetry import names
from toolmend.telemetry.label_sets import LIMITS
from toolmend.telemetry.names import Metric, prometheus_label, prometheus_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MEANINGS: Mapping[Metric, str] = {
    names.MODEL_CALLS: (
        "One per decorated model call, counted when the function returns, raises or yields its "
        "first item. The outcome depends on the history alone, never on the model's answer. "
        "`repaired` over all is the share of *mended requests*: it counts a hole in a store again "
        "with every request that carries it."
    ),
    names.REJECTIONS: (
        "The provider answered 400 and its words say that the history is at fault, although "
        "toolmend had looked at it. It should stay at 0; one is worth a report."
    ),
    names.TOOL_CALLS_REQUESTED: (
        "The lower side of the patch rate: every tool call once, when the first request after it "
        "is made. Calls without a name count on neither side."
    ),
    names.TOOL_CALLS_DANGLING: (
        "The upper side of the patch rate: with `first` only, each call once however often its "
        "history is sent. `repeat` counts later requests with the same hole; many of them say: "
        "mend the store, not only the request. In observe and raise mode it counts what would "
        "have been mended."
    ),
    names.DANGLING_CAUSES: (
        "Why calls had no result, as far as the shape of the history tells. First sightings only."
    ),
    names.THREADS_DANGLING: (
        "Which conversations are hit. First sightings only. A process names its first 200 threads; "
        "for more of them, count the log records."
    ),
    names.REPAIR_COUNT: (
        "Everything that was done to histories, repeats included: not only calls without a result "
        "but also results in the wrong place, twice, or without a call."
    ),
    names.REPAIR_DURATION: (
        "What toolmend adds to a model call. Far below a millisecond for histories of usual length."
    ),
    names.FAULTS: (
        "A fault of toolmend itself; the call went on with the history as it was. It should stay "
        "at 0; the log event `toolmend_fault` names the place."
    ),
}

LABELS: Mapping[str, str] = {
    names.MODEL: "the model asked for",
    names.PROVIDER: "the provider, as OpenTelemetry names it",
    names.TOOL: "the tool that the model called",
    names.THREAD: "the conversation; a hash of it with `TOOLMEND_THREAD_LABEL=hash`",
    names.FORMAT: "the wire format of the history",
    names.OUTCOME: "what was done",
    names.RECURRENCE: "whether the call is seen without a result for the first time",
    names.CAUSE: "why it has no result",
    names.FINDING: "what was found",
    names.ACTION: "what was done about it",
    names.WHERE: "in which part of toolmend",
}

_CLOSED: Mapping[str, Sequence[str]] = {
    names.OUTCOME: names.OUTCOMES,
    names.RECURRENCE: names.RECURRENCES,
    names.CAUSE: (*names.INFERRED_CAUSES, *names.RECORDED_CAUSES),
    names.FINDING: KINDS,
    names.ACTION: names.ACTIONS,
    names.WHERE: names.FAULT_PLACES,
}


def metrics_page(boards: Sequence[Mapping[str, Any]]) -> str:
    """Return the page, in Markdown.

    Args:
        boards: the boards' JSON models, to tell which panels show a metric.
    """
    sections = [
        _HEAD,
        *(_section(metric, boards) for metric in names.METRICS if metric in MEANINGS),
        _labels(),
    ]
    return "\n".join(sections)


_HEAD = """\
# What does each metric mean?

<!-- Made by `make dashboards` from the telemetry's own names; changes here are lost. -->

**Patch rate** = `toolmend.tool_calls.dangling` with recurrence `first` ÷ `toolmend.tool_calls.requested`. Both count each
call once, so it lies between 0 and 1. It rises when tools time out, are cancelled or crash: it is about the runtime of
the tools, not about the model.

The names in Prometheus are those of its OTLP receiver as it comes: dots become underscores, counters end in `_total`.
`job` is `service.namespace/service.name`, or the name alone; `instance` is `service.instance.id`.
"""


def _section(metric: Metric, boards: Sequence[Mapping[str, Any]]) -> str:
    series = prometheus_name(metric)
    shown = ", ".join(f"*{title}*" for title in panels_with(series, boards))
    labels = ", ".join(f"`{prometheus_label(label)}`" for label in metric.attributes)
    unit = "seconds" if metric.unit == "s" else metric.unit.strip("{}") + "s"
    name = f"`{series}`" + (" (`_bucket`, `_sum`, `_count`)" if metric.buckets else "")
    return (
        f"## {metric.name}\n\n"
        f"{metric.description} {MEANINGS[metric]}\n\n"
        f"* In Prometheus: {name}, a {metric.kind} of {unit}\n"
        f"* Labels: {labels}\n"
        f"* On the board: {shown}\n"
    )


def _labels() -> str:
    rows = []
    for label, meaning in LABELS.items():
        values = ", ".join(f"`{value}`" for value in _CLOSED.get(label, ()))
        if label in LIMITS:
            values = f"the first {LIMITS[label]} of a process, then `{names.OTHER}`"
        elif label == names.THREAD:
            values = f"the first 200 (`TOOLMEND_THREAD_LIMIT`), then `{names.OTHER}`"
        rows.append(f"| `{prometheus_label(label)}` | `{label}` | {meaning} | {values} |")
    head = "| in Prometheus | attribute | meaning | values |\n| --- | --- | --- | --- |\n"
    return "## Labels\n\n" + head + "\n".join(rows) + "\n"


def panels_with(series: str, boards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the titles of the panels that ask for a series, each once, in their order."""
    titles = [
        query.title
        for model in boards
        for query in read_board(model).queries
        if query.place == "panel" and series in query.text
    ]
    return list(dict.fromkeys(titles))
