"""The page *What does each metric mean?*, made of the names module and of the boards."""

from __future__ import annotations

import re
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
    names.TOOL_CALLS_EXECUTED: (
        "One per call of a tool that `@toolmend.tool_call` guards, counted when its result is there. "
        "`degraded`: a fallback answered, so the run goes on and the tool has failed all the same. "
        "`abandoned`: given up at the time limit, and nothing could stop it. The *error share* is "
        "`failed`, `degraded` and `abandoned` over all but `cancelled`. `error_type` is there when the "
        "outcome is not `ok`."
    ),
    names.TOOL_DURATION: (
        "The metric of OpenTelemetry's GenAI conventions for tools: for how long the caller waits."
    ),
    names.TOOL_CALLS_RETRIED: (
        "Over the executions it says how much retries still hide: it rises before the error share does."
    ),
    names.TOOL_CALLS_ABANDONED: (
        "What happens now, not a count of what happened: a call leaves it when its function returns "
        "at last. Each holds a thread or a connection. Add up the replicas."
    ),
    names.BREAKER_STATE: (
        "One series per tool and state. Each replica has breakers of its own: ask for the `max` over "
        "replicas, for one open of two is worth knowing. Tools of one name in a process show the worst."
    ),
    names.BREAKER_TRANSITIONS: (
        "From which state to which, and why. `waited` and `probe_failed` in turns: the tool has not "
        "come back."
    ),
    names.FALLBACKS: (
        "The model got another answer than the tool's, so these executions are `degraded`."
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
    names.OUTCOME: "what was done, and of a tool: how it ended",
    names.RECURRENCE: "whether the call is seen without a result for the first time",
    names.CAUSE: "why it has no result",
    names.FINDING: "what was found",
    names.ACTION: "what was done about it",
    names.WHERE: "in which part of toolmend",
    names.ERROR_TYPE: "of which class the last error was",
    names.STATE: "which state of the breaker this series is about",
    names.FROM: "the state before",
    names.TO: "the state after",
    names.REASON: "why the breaker changed",
    names.KIND: "what answered instead",
}

_CLOSED: Mapping[str, Sequence[str]] = {
    names.OUTCOME: (*names.OUTCOMES, *names.TOOL_OUTCOMES),
    names.RECURRENCE: names.RECURRENCES,
    names.CAUSE: (*names.INFERRED_CAUSES, *names.RECORDED_CAUSES),
    names.FINDING: KINDS,
    names.ACTION: names.ACTIONS,
    names.WHERE: names.FAULT_PLACES,
    names.ERROR_TYPE: (*names.ERROR_TYPES, names.OTHER),
    names.STATE: names.BREAKER_STATES,
    names.FROM: names.BREAKER_STATES,
    names.TO: names.BREAKER_STATES,
    names.REASON: names.BREAKER_REASONS,
    names.KIND: names.FALLBACK_KINDS,
}


def metrics_page(boards: Sequence[Mapping[str, Any]]) -> str:
    """Return the page, in Markdown.

    Args:
        boards: the boards' JSON models, to tell which panels show a metric.
    """
    sections = [
        _HEAD,
        *(_section(metric, boards) for metric in names.METRICS),
        _labels(),
    ]
    return "\n".join(sections)


_HEAD = """\
# What does each metric mean?

<!-- Made by `make dashboards` from the telemetry's own names; changes here are lost. -->

**Patch rate** = `toolmend.tool_calls.dangling` with recurrence `first` ÷ `toolmend.tool_calls.requested`. Both count each
call once, so it lies between 0 and 1. It rises when tools time out, are cancelled or crash: it is about the runtime of
the tools, not about the model.

**Error share** = executions of `toolmend.tool_calls.executed` that are `failed`, `degraded` or `abandoned` ÷ all but the
`cancelled` ones. It is about guarded tools alone, and sees failures that became a proper result, too.

The names in Prometheus are those of its OTLP receiver as it comes: dots become underscores, counters end in `_total`.
`job` is `service.namespace/service.name`, or the name alone; `instance` is `service.instance.id`.
"""


def _section(metric: Metric, boards: Sequence[Mapping[str, Any]]) -> str:
    series = prometheus_name(metric)
    shown = "\n".join(
        f"* On *{board}*: {', '.join(f'*{title}*' for title in titles)}"
        for board, titles in panels_with(series, boards).items()
    )
    labels = ", ".join(f"`{prometheus_label(label)}`" for label in metric.attributes)
    unit = "seconds" if metric.unit == "s" else metric.unit.strip("{}") + "s"
    name = f"`{series}`" + (" (`_bucket`, `_sum`, `_count`)" if metric.buckets else "")
    return (
        f"## {metric.name}\n\n"
        f"{metric.description} {MEANINGS[metric]}\n\n"
        f"* In Prometheus: {name}, a {metric.kind} of {unit}\n"
        f"* Labels: {labels}\n"
        f"{shown}\n"
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


def panels_with(series: str, boards: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the titles of the panels that ask for a series, each once, in their order, by board."""
    found: dict[str, list[str]] = {}
    for model in boards:
        board = read_board(model)
        titles = [
            query.title
            for query in board.queries
            if query.place == "panel" and re.search(rf"\b{series}(?:_bucket)?\b", query.text)
        ]
        if titles:
            found[board.title.rpartition(" / ")[2]] = list(dict.fromkeys(titles))
    return found
