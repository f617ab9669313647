"""How bad it is, since when and why: the first screen of *Tool-call health*."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links, patch_rules
from dashboards.generate.charts import Series, bars, chart
from dashboards.generate.fields import PERCENT, TIMES, Limits
from dashboards.generate.health.counts import calls, dangling, requested, traces_and_logs
from dashboards.generate.health.scope import OF_MODEL, OF_TOOL
from dashboards.generate.panels import stat
from dashboards.generate.promql import CAUSE, FIRST, OUTCOME, REPEAT, added, rate
from dashboards.generate.variables import BY_TOOL, OF_SERVICE
from toolmend.telemetry import names

PATCH_LIMITS = Limits(orange=0.02, red=0.05)

_RANGE = "$__range"
_RATE = "$__rate_interval"


def patch_rate() -> Any:
    """Return the number to watch."""
    return stat(
        "Patch rate, 15 min",
        "Of the tool calls that models asked for in the last 15 minutes: the part that was found "
        "without a result. Orange from 2 %, red from 5 %.",
        f"({dangling('15m')} or vector(0)) / ({requested('15m')} > 0)",
        unit=PERCENT,
        decimals=1,
        limits=PATCH_LIMITS,
        empty="no tool calls",
        links=traces_and_logs(),
    )


def against_its_day() -> Any:
    """Return how many times its usual the patch rate is."""
    return stat(
        "Against its own day",
        "The patch rate of 15 minutes divided by its median over the last day; of several "
        "services the worst. A service needs six hours of past. It is recorded per service, so "
        "provider, model and tool do not narrow it.",
        f"max({patch_rules.ratio('15m')}{{{OF_SERVICE}}} / {patch_rules.MEDIAN}{{{OF_SERVICE}}})",
        unit=TIMES,
        decimals=1,
        limits=Limits(orange=2, red=3),
        empty="no past yet",
    )


def new_dangling() -> Any:
    """Return how many calls lost their result."""
    return stat(
        "New dangling calls",
        "Tool calls that were found without a result in the time shown, each counted once.",
        f"{dangling(_RANGE)} or vector(0)",
        decimals=0,
        links=traces_and_logs(),
    )


def mended_requests() -> Any:
    """Return the share of requests that had to be mended."""
    repaired = calls(_RANGE, f'{OUTCOME}=~"{links.NEEDED_REPAIR}"')
    return stat(
        "Mended requests",
        "Of all model calls in the time shown: the part whose history had to be mended, or would have "
        "been in observe mode. It counts repeats too, so it stays high while holes stay in a store. "
        "Not narrowed by tool.",
        f"({repaired} or vector(0)) / ({calls(_RANGE)} > 0)",
        unit=PERCENT,
        decimals=1,
        empty="no calls",
    )


def repeat_share() -> Any:
    """Return the share of mended calls that were mended before."""
    repeats = dangling("1h", recurrence=REPEAT)
    return stat(
        "Repeat share, 1 h",
        "Of the calls mended in the last hour: the part that had been mended before. High: the "
        "stored history keeps its holes. Mend the store, not only the request.",
        f"({repeats} or vector(0)) / ({dangling('1h', recurrence='')} > 0)",
        unit=PERCENT,
        decimals=0,
        limits=Limits(orange=0.5, red=0.75),
        empty="none mended",
    )


def rejections() -> Any:
    """Return how many histories were refused all the same."""
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


def faults() -> Any:
    """Return how often toolmend itself failed."""
    return stat(
        "Faults of toolmend",
        "Faults inside toolmend in the time shown; the calls went on unmended. Not narrowed by "
        "provider, model and tool.",
        f"{added(names.FAULTS, _RANGE, OF_SERVICE)} or vector(0)",
        decimals=0,
        limits=Limits(red=0.5),
        links=[links.explore_logs("Logs of faults", links.logs_of(names.LOG_FAULT))],
    )


def patch_rate_and_its_past() -> Any:
    """Return the patch rate over time, with its yesterday and its alert."""

    def recorded(offset: str = "") -> str:
        lost = f"sum({patch_rules.dangling_first('15m')}{{{OF_SERVICE}}}{offset})"
        return f"{lost} / (sum({patch_rules.requested('15m')}{{{OF_SERVICE}}}{offset}) > 0)"

    lost = rate(names.TOOL_CALLS_DANGLING, _RATE, OF_TOOL, FIRST)
    return chart(
        "Patch rate and its past",
        "Now: at the resolution of the screen, narrowed by all variables. Over 15 minutes, a day "
        "before and the alert line are recorded per service. The red line is where "
        "ToolmendPatchRateRising fires within 15 minutes; of several services the lowest.",
        [
            Series(
                expr=f"({lost} or vector(0))"
                f" / ({rate(names.TOOL_CALLS_REQUESTED, _RATE, OF_TOOL)} > 0)",
                legend="now",
            ),
            Series(expr=recorded(), legend="over 15 min", color="blue"),
            Series(expr=recorded(" offset 1d"), legend="a day before", color="text", dashed=True),
            Series(
                expr=f"min({patch_rules.rising_bound(OF_SERVICE)})", legend="alert", color="red"
            ),
        ],
        unit=PERCENT,
        maximum=0.1,
        links=traces_and_logs(),
    )


def why() -> Any:
    """Return the causes over time."""
    causes = added(
        names.DANGLING_CAUSES,
        "$__interval",
        OF_SERVICE,
        BY_TOOL,
        by=[CAUSE],
    )
    return bars(
        "Why",
        "New dangling calls by cause, read from the shape of the history. Not narrowed by "
        "provider and model.",
        Series(expr=causes, legend=f"{{{{{CAUSE}}}}}"),
        step="5m",
        links=traces_and_logs(),
    )
