"""The board *Tool-call health*: is the patch rate rising, since when, for whom, and why?"""

from __future__ import annotations

from typing import Any

from dashboards.generate import links
from dashboards.generate.board import (
    OF_MODEL,
    OF_SERVICE,
    OF_TOOL,
    VARIABLES,
    Line,
    Place,
    board,
)
from dashboards.generate.panels import (
    PER_SECOND,
    PERCENT,
    SECONDS,
    TIMES,
    Column,
    Limits,
    Series,
    bars,
    chart,
    log_counts,
    log_lines,
    note,
    stat,
    table,
)
from dashboards.generate.promql import (
    ACTION,
    CAUSE,
    FINDING,
    FIRST,
    MODEL,
    OUTCOME,
    REPEAT,
    THREAD,
    TOOL,
    added,
    rate,
)
from dashboards.generate.rules import MEDIAN, dangling_first, ratio, requested, rising_bound
from toolmend.telemetry import names

UID = "toolmend-health"

_RANGE = "$__range"
_RATE = "$__rate_interval"
_PATCH_LIMITS = Limits(orange=0.02, red=0.05)
_HOW_TO_READ = """\
**Patch rate** = tool calls that were found without a result, each counted once, ÷ tool calls that models asked for. \
It is a health signal of the **tool runtime**, not of the model: a call is left without a result when the tool timed \
out, was cancelled or crashed, or when the application lost what it had. toolmend mends the history, so users may \
notice nothing while this number rises.
**1.** *Patch rate* and *Against its own day*: is it worse than usual? **2.** *Patch rate and its past*: since when, \
and is there a blue line (a new version) at that moment? **3.** *Why*, *Which tool*, *Which model*, *Which thread*: \
for whom. **4.** A click on a row opens its traces or its logs. A high *Repeat share* says that the stored history \
keeps its hole: mend the store, not only the request.\
"""


def health() -> dict[str, Any]:
    """Return the board."""
    return board(
        UID,
        "Toolmend / Tool-call health",
        "Is the tool runtime getting worse, since when, for which model, thread and tool, and why?",
        [
            Line(
                height=4,
                places=[
                    Place(panel=_patch_rate(), width=4),
                    Place(panel=_against_its_day(), width=3),
                    Place(panel=_new_dangling(), width=3),
                    Place(panel=_mended_requests(), width=3),
                    Place(panel=_repeat_share(), width=3),
                    Place(panel=_rejections(), width=3),
                    Place(panel=_alerts(), width=2),
                    Place(panel=_faults(), width=3),
                ],
            ),
            Line(
                height=9,
                places=[
                    Place(panel=_patch_rate_and_its_past(), width=16),
                    Place(panel=_why(), width=8),
                ],
            ),
            Line(height=4, places=[Place(panel=note("How to read this", _HOW_TO_READ), width=24)]),
            Line(
                height=8,
                places=[
                    Place(panel=_which_tool(), width=12),
                    Place(panel=_which_model(), width=12),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=_which_thread(), width=12),
                    Place(panel=_which_thread_in_logs(), width=12),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=_outcomes(), width=8),
                    Place(panel=_what_was_done(), width=8),
                    Place(panel=_repair_latency(), width=8),
                ],
            ),
            Line(height=9, places=[Place(panel=_mended_calls(), width=24)]),
        ],
    )


def _dangling(window: str, *by: str, recurrence: str = FIRST) -> str:
    return added(names.TOOL_CALLS_DANGLING, window, OF_TOOL, recurrence, by=by)


def _requested(window: str, *by: str) -> str:
    return added(names.TOOL_CALLS_REQUESTED, window, OF_TOOL, by=by)


def _calls(window: str, *matchers: str) -> str:
    return added(names.MODEL_CALLS, window, OF_MODEL, *matchers)


def _patch_rate() -> Any:
    return stat(
        "Patch rate, 15 min",
        "Of the tool calls that models asked for in the last 15 minutes: the part that was found "
        "without a result. Orange from 2 %, red from 5 %.",
        f"({_dangling('15m')} or vector(0)) / ({_requested('15m')} > 0)",
        unit=PERCENT,
        decimals=1,
        limits=_PATCH_LIMITS,
        empty="no tool calls",
        links=_traces_and_logs(),
    )


def _against_its_day() -> Any:
    return stat(
        "Against its own day",
        "The patch rate of 15 minutes divided by its median over the last day; of several "
        "services the worst. A service needs six hours of past. It is recorded per service, so "
        "provider, model and tool do not narrow it.",
        f"max({ratio('15m')}{{{OF_SERVICE}}} / {MEDIAN}{{{OF_SERVICE}}})",
        unit=TIMES,
        decimals=1,
        limits=Limits(orange=2, red=3),
        empty="no past yet",
    )


def _new_dangling() -> Any:
    return stat(
        "New dangling calls",
        "Tool calls that were found without a result in the time shown, each counted once.",
        f"{_dangling(_RANGE)} or vector(0)",
        decimals=0,
        links=_traces_and_logs(),
    )


def _mended_requests() -> Any:
    repaired = _calls(_RANGE, f'{OUTCOME}=~"{links.NEEDED_REPAIR}"')
    return stat(
        "Mended requests",
        "Of all model calls in the time shown: the part whose history had to be mended, or would have "
        "been in observe mode. It counts repeats too, so it stays high while holes stay in a store. "
        "Not narrowed by tool.",
        f"({repaired} or vector(0)) / ({_calls(_RANGE)} > 0)",
        unit=PERCENT,
        decimals=1,
        empty="no calls",
    )


def _repeat_share() -> Any:
    repeats = _dangling("1h", recurrence=REPEAT)
    return stat(
        "Repeat share, 1 h",
        "Of the calls mended in the last hour: the part that had been mended before. High: the "
        "stored history keeps its holes. Mend the store, not only the request.",
        f"({repeats} or vector(0)) / ({_dangling('1h', recurrence='')} > 0)",
        unit=PERCENT,
        decimals=0,
        limits=Limits(orange=0.5, red=0.75),
        empty="none mended",
    )


def _rejections() -> Any:
    return stat(
        "Rejections",
        "Model calls in the time shown whose history the provider refused all the same. One is "
        "worth a look. Not narrowed by tool.",
        f"{added(names.REJECTIONS, _RANGE, OF_MODEL)} or vector(0)",
        decimals=0,
        limits=Limits(red=0.5),
        links=[
            links.explore_traces("Traces of rejected calls", links.traces_rejected()),
            links.explore_logs("Logs of rejections", links.logs_of(names.LOG_REJECTED)),
        ],
    )


def _alerts() -> Any:
    return stat(
        "Alerts",
        "Alerts of toolmend that fire now for the services chosen.",
        f'count(ALERTS{{alertname=~"Toolmend.*",alertstate="firing",{OF_SERVICE}}}) or vector(0)',
        decimals=0,
        limits=Limits(red=1),
    )


def _faults() -> Any:
    return stat(
        "Faults of toolmend",
        "Faults inside toolmend in the time shown; the calls went on unmended. Not narrowed by "
        "provider, model and tool.",
        f"{added(names.FAULTS, _RANGE, OF_SERVICE)} or vector(0)",
        decimals=0,
        limits=Limits(red=0.5),
        links=[links.explore_logs("Logs of faults", links.logs_of(names.LOG_FAULT))],
    )


def _patch_rate_and_its_past() -> Any:
    def recorded(offset: str = "") -> str:
        dangling = f"sum({dangling_first('15m')}{{{OF_SERVICE}}}{offset})"
        return f"{dangling} / (sum({requested('15m')}{{{OF_SERVICE}}}{offset}) > 0)"

    dangling = rate(names.TOOL_CALLS_DANGLING, _RATE, OF_TOOL, FIRST)
    return chart(
        "Patch rate and its past",
        "Now: at the resolution of the screen, narrowed by all variables. Over 15 minutes, a day "
        "before and the alert line are recorded per service. The red line is where "
        "ToolmendPatchRateRising fires within 15 minutes; of several services the lowest.",
        [
            Series(
                expr=f"({dangling} or vector(0))"
                f" / ({rate(names.TOOL_CALLS_REQUESTED, _RATE, OF_TOOL)} > 0)",
                legend="now",
            ),
            Series(expr=recorded(), legend="over 15 min", color="blue"),
            Series(expr=recorded(" offset 1d"), legend="a day before", color="text", dashed=True),
            Series(expr=f"min({rising_bound(OF_SERVICE)})", legend="alert", color="red"),
        ],
        unit=PERCENT,
        maximum=0.1,
        links=_traces_and_logs(),
    )


def _why() -> Any:
    causes = added(
        names.DANGLING_CAUSES,
        "$__interval",
        OF_SERVICE,
        f'{TOOL}=~"$tool"',
        by=[CAUSE],
    )
    return bars(
        "Why",
        "New dangling calls by cause, read from the shape of the history. Not narrowed by "
        "provider and model.",
        Series(expr=causes, legend=f"{{{{{CAUSE}}}}}"),
        step="5m",
        links=_traces_and_logs(),
    )


def _which_tool() -> Any:
    return table(
        "Which tool",
        "The tools with the most new dangling calls in the time shown. Past 100 tools of one "
        "process, further ones share the name _OTHER.",
        label=TOOL,
        head="Tool",
        columns=_rates_by(TOOL),
        links=[
            links.narrow(UID, "tool", VARIABLES),
            links.explore_traces("Traces of this tool", links.traces_mended(links.CLICKED)),
        ],
    )


def _which_model() -> Any:
    return table(
        "Which model",
        "The models with the most new dangling calls in the time shown.",
        label=MODEL,
        head="Model",
        columns=_rates_by(MODEL),
        links=[
            links.narrow(UID, "model", VARIABLES),
            links.explore_traces("Traces of this model", links.traces_of_model(links.CLICKED)),
        ],
    )


def _rates_by(label: str) -> list[Column]:
    dangling = _dangling(_RANGE, label)
    requested = _requested(_RANGE, label)
    most = f"topk(20, {dangling})"  # all columns for the same rows, and never more of them
    return [
        Column(title="Dangling", expr=most),
        Column(
            title="Patch rate",
            expr=f"{dangling} / ({requested} > 0) and {most}",
            unit=PERCENT,
            limits=_PATCH_LIMITS,
        ),
        Column(title="Requested", expr=f"{requested} and {most}"),
    ]


def _which_thread() -> Any:
    dangling = added(names.THREADS_DANGLING, _RANGE, OF_SERVICE, by=[THREAD])
    return table(
        "Which thread",
        "The conversations with the most new dangling calls in the time shown. A process names "
        "its first 200 (TOOLMEND_THREAD_LIMIT), all others are _OTHER: then the table beside this "
        "one knows more. Narrowed by service alone.",
        label=THREAD,
        head="Thread",
        columns=[Column(title="Dangling", expr=f"topk(10, {dangling} > 0)")],
        links=_of_thread(),
    )


def _which_thread_in_logs() -> Any:
    return log_counts(
        "Which thread, from the logs",
        "The conversations with the most mended requests in the time shown, counted in the log "
        "records: no limit on threads. Narrowed by service alone.",
        label=THREAD,
        head="Thread",
        value="Mended requests",
        expr=links.threads_in_logs(),
        links=_of_thread(),
    )


def _outcomes() -> Any:
    return chart(
        "Outcomes",
        "Model calls by what was done to their history. Not narrowed by tool.",
        [
            Series(
                expr=rate(names.MODEL_CALLS, _RATE, OF_MODEL, by=[OUTCOME]),
                legend=f"{{{{{OUTCOME}}}}}",
            )
        ],
        unit=PER_SECOND,
        stacked=True,
    )


def _what_was_done() -> Any:
    # Counted and not a rate: most kinds are rare, and a rate never sees the first of a series.
    repairs = added(names.REPAIR_COUNT, "$__interval", OF_MODEL, by=[FINDING, ACTION])
    return bars(
        "What was done",
        "Repairs by what was found and what was done about it, repeats included. Not narrowed by tool.",
        Series(expr=repairs, legend=f"{{{{{FINDING}}}}}: {{{{{ACTION}}}}}"),
        step="5m",
    )


def _repair_latency() -> Any:
    buckets = rate(names.REPAIR_DURATION, _RATE, OF_SERVICE, by=["le"], suffix="_bucket")
    return chart(
        "Repair latency",
        "Time that toolmend adds to a model call. The dots are traces. Narrowed by service alone.",
        [
            Series(
                expr=f"histogram_quantile({quantile}, {buckets})",
                legend=legend,
                exemplars=quantile == "0.99",
            )
            for quantile, legend in (("0.5", "half of the calls"), ("0.99", "99 of 100"))
        ],
        unit=SECONDS,
        limits=Limits(red=0.01),
    )


def _mended_calls() -> Any:
    return log_lines(
        "Mended calls",
        "One record per request with a new dangling call that was mended, or would have been in "
        "observe mode. Narrowed by service alone.",
        links.logs_of(links.MENDED, "$service"),
    )


def _traces_and_logs() -> list[Any]:
    return [
        links.explore_traces("Traces of mended calls", links.traces_mended()),
        links.explore_logs("Logs of mended calls", links.logs_of(links.MENDED)),
    ]


def _of_thread() -> list[Any]:
    return [
        links.explore_traces("Traces of this thread", links.traces_of_thread(links.CLICKED)),
        links.explore_logs(
            "Logs of this thread", links.logs_of(links.MENDED, thread=links.CLICKED)
        ),
    ]
