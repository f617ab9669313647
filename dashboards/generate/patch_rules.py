"""Rules about calls that are left without a result: the patch rate, what is usual for it, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dashboards.generate.promql import (
    AT_WORK,
    FIRST,
    JOB,
    REPEAT,
    TOOL,
    WHERE,
    added,
    series,
    sum_by,
)
from dashboards.generate.rule import COUNTED, JOB_NAME, SHARE, alert, record
from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is recorded. Boards and alerts read these names.


def dangling_first(window: str, level: str = JOB) -> str:
    """Return the record of calls first seen without a result within a window."""
    return record(level, names.TOOL_CALLS_DANGLING, f"_first:increase{window}")


def requested(window: str, level: str = JOB) -> str:
    """Return the record of tool calls asked for within a window."""
    return record(level, names.TOOL_CALLS_REQUESTED, f":increase{window}")


def ratio(window: str) -> str:
    """Return the record of the patch rate of a window: dangling over requested, per job."""
    return f"{JOB}:toolmend_patch:ratio{window}"


MEDIAN = f"{ratio('15m')}_median1d"
"""The usual patch rate: half of the quarters of an hour of the last day were better than this."""
SPREAD = f"{ratio('15m')}_spread1d"
"""How far below the usual a good quarter of an hour lies; what is lost in batches has a large one."""

_BY_TOOL = "tool"
_GOOD_QUANTILE = 0.1
_FLOOR = 0.005
"""Below half a percent every past is alike: one lost call would be many times the usual."""
_PAST = f"{ratio('15m')}[1d] offset 1h"
"""The last hour stands apart, or an incident would soon be measured by itself."""
_MINUTES_OF_PAST = 360


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One look back of ToolmendPatchRateRising and what it takes to fire there."""

    length: str
    calls: int
    """So many calls were requested, 200 an hour; below that the median of counts near zero says little."""
    above: float
    """By so much must the square root of the lost calls exceed that of the expected ones. Whatever
    is expected, chance moves the root of a count by about one half."""
    spreads: float
    """So many spreads must the patch rate lie above the usual one. Longer windows vary less."""


WINDOWS = (
    Window(length="15m", calls=50, above=1.8, spreads=3.5),
    Window(length="30m", calls=100, above=1.85, spreads=2),
    Window(length="1h", calls=200, above=2, spreads=2),
)
RISE = 1.5
"""A smaller rise than to one and a half of the usual is not worth a ticket, however certain."""


def rising_bound(*matchers: str) -> str:
    """Return the patch rate above which ToolmendPatchRateRising fires within 15 minutes: its line on a board.

    Args:
        matchers: which services, as `job=~"a"`.
    """
    which = f"{{{','.join(matchers)}}}" if matchers else ""
    quarter = WINDOWS[0]
    calls, usual, spread = (
        f"{record}{which}" for record in (requested(quarter.length), MEDIAN, SPREAD)
    )
    chance = f"(sqrt({usual} * {calls}) + {quarter.above}) ^ 2 / {calls}"
    highest = _greater(
        _greater(chance, f"({usual} + {quarter.spreads} * {spread})"), f"{RISE} * {usual}"
    )
    return f"{highest} and {calls} >= {quarter.calls}"


def _greater(one: str, other: str) -> str:
    return f"({one} > {other} or {other})"


def recording_rules() -> list[dict[str, Any]]:
    """Return what is recorded, each after what it is made of."""
    return [
        *(rule for window in WINDOWS for rule in _patch_rate(window.length)),
        {
            "record": MEDIAN,
            "expr": f"clamp_min(quantile_over_time(0.5, {_PAST}), {_FLOOR})"
            f" and count_over_time({_PAST}) >= {_MINUTES_OF_PAST}",
        },
        {
            "record": SPREAD,
            "expr": f"quantile_over_time(0.5, {_PAST}) - quantile_over_time({_GOOD_QUANTILE}, {_PAST})",
        },
        *_tool_counts("30m"),
    ]


def alert_rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    return [
        _patch_rate_high(),
        _patch_rate_rising(),
        _tool_unstable(),
        _repeats_outnumber_firsts(),
        _provider_still_rejects(),
        _telemetry_gone(),
        _faults(),
    ]


def _patch_rate(window: str) -> Iterator[dict[str, Any]]:
    calls, lost = requested(window), dangling_first(window)
    yield {"record": calls, "expr": added(names.TOOL_CALLS_REQUESTED, window, by=(JOB,))}
    # A service that has lost none yet has no such series; its patch rate is 0, not absent.
    found = added(names.TOOL_CALLS_DANGLING, window, FIRST, by=(JOB,))
    yield {"record": lost, "expr": f"{found} or 0 * {calls}"}
    # Without calls there is no rate: a NaN would shift the quantiles.
    yield {"record": ratio(window), "expr": f"{lost} / ({calls} > 0)"}


def _tool_counts(window: str) -> Iterator[dict[str, Any]]:
    by = (JOB, TOOL)
    # The first scrape of an old process is no event: a tool may have lost calls long ago.
    known = series(names.MODEL_CALLS)
    yield {
        "record": requested(window, _BY_TOOL),
        "expr": added(names.TOOL_CALLS_REQUESTED, window, by=by, only_if=known),
    }
    yield {
        "record": dangling_first(window, _BY_TOOL),
        "expr": added(names.TOOL_CALLS_DANGLING, window, FIRST, by=by, only_if=known),
    }


def _patch_rate_high() -> dict[str, Any]:
    return alert(
        "PatchRateHigh",
        f"{ratio('15m')} > 0.05 and {requested('15m')} >= 20 and {dangling_first('15m')} >= 5",
        hold="15m",  # as long as the window: one bad minute stays in it, but nobody gets up for that
        severity="page",
        summary=f"{JOB_NAME} left {SHARE} of its tool calls without a result in the last 15 minutes.",
        description="Look at the panel Why: it tells which part of the tool runtime to look at.",
    )


def _patch_rate_rising() -> dict[str, Any]:
    looks = " or ".join(
        f"({ratio(window.length)} > {RISE} * {MEDIAN}"
        f" and {ratio(window.length)} > {MEDIAN} + {window.spreads} * {SPREAD}"
        f" and sqrt({dangling_first(window.length)})"
        f" > sqrt({MEDIAN} * {requested(window.length)}) + {window.above}"
        f" and {requested(window.length)} >= {window.calls})"
        for window in WINDOWS
    )
    return alert(
        "PatchRateRising",
        looks,
        keep="15m",
        severity="ticket",
        summary=f"{JOB_NAME} leaves {SHARE} of its tool calls without a result, more than its last day explains.",
        description="Find out what began with the rise (a deploy, a tool, a model), then look at the panel Why.",
    )


def _tool_unstable() -> dict[str, Any]:
    lost = dangling_first("30m", _BY_TOOL)
    return alert(
        "ToolUnstable",
        f"{lost} / {requested('30m', _BY_TOOL)} > 0.2 and {lost} >= 5",
        hold="5m",
        severity="ticket",
        summary=f"{{{{ $labels.{TOOL} }}}} leaves {SHARE} of its calls in {JOB_NAME} without a result.",
        description="Look at this one tool: its errors, its time limit, what it depends on.",
    )


def _repeats_outnumber_firsts() -> dict[str, Any]:
    repeats = added(
        names.TOOL_CALLS_DANGLING, "1h", REPEAT, by=(JOB,), only_if=series(names.MODEL_CALLS)
    )
    return alert(
        "RepeatsOutnumberFirsts",
        f"({repeats} > 3 * {dangling_first('1h')}) >= 30",
        hold="30m",
        severity="ticket",
        summary=f"{JOB_NAME} sent calls it had mended before {COUNTED} more times within an hour.",
        description="Mend the stored histories, not only the requests: every turn of these threads sends the gap again.",
    )


def _provider_still_rejects() -> dict[str, Any]:
    rejected = added(names.REJECTIONS, "15m", by=(JOB,), only_if=series(names.MODEL_CALLS))
    return alert(
        "ProviderStillRejects",
        f"{rejected} > 0",
        severity="page",
        summary=f"The provider refused histories of {JOB_NAME} that toolmend had let through.",
        description="Read the history_rejected events of this service: users get errors now.",
    )


def _telemetry_gone() -> dict[str, Any]:
    # A process that has done nothing yet already shows its faults, all 0.
    alive = f"({AT_WORK} or {series(names.FAULTS)})"
    return alert(
        "TelemetryGone",
        f"{sum_by((JOB,))}(last_over_time({AT_WORK}[1d] offset 15m)) unless on ({JOB}) {alive}",
        hold="15m",
        severity="ticket",
        summary=f"{JOB_NAME} sent toolmend's metrics within the last day and sends none now.",
        description="See whether the service still runs; if it does, look at its exporter and at the collector.",
    )


def _faults() -> dict[str, Any]:
    faults = added(names.FAULTS, "15m", by=(JOB, WHERE), only_if=AT_WORK)
    return alert(
        "Faults",
        f"{faults} > 0",
        severity="ticket",
        summary=f"toolmend itself failed in {JOB_NAME} ({{{{ $labels.{WHERE} }}}}) and let the call go on.",
        description="Read the toolmend_fault events: they tell the kind of error and its place; report them.",
    )
