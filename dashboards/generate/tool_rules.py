"""Rules about guarded tools: one that fails too often, and one whose breaker stays open."""

from __future__ import annotations

from typing import Any

from dashboards.generate.promql import FAILING, JOB, SETTLED, STATE, TOOL, added, series
from dashboards.generate.rule import JOB_NAME, SHARE, alert, record
from toolmend.telemetry import names

_WINDOW = "30m"
_LEVEL = "tool"
_FAILING = record(_LEVEL, names.TOOL_CALLS_EXECUTED, f"_failing:increase{_WINDOW}")
_SETTLED = record(_LEVEL, names.TOOL_CALLS_EXECUTED, f"_settled:increase{_WINDOW}")
"""All executions but the cancelled ones."""

_OPEN_WITHIN = "4m"
"""A breaker that probes and opens again was open at some moment of this, whatever a sample met. Less
than the five minutes that an alert must hold: one opening of a minute, then a good probe, is no alert."""


def breaker_open(*matchers: str) -> str:
    """Return 1 for each tool whose breaker is open in a replica, or was a moment ago.

    Args:
        matchers: which ones, as `job=~"a"`.
    """
    selected = series(names.BREAKER_STATE, f'{STATE}="open"', *matchers)
    return f"max by ({JOB}, {TOOL}) (max_over_time({selected}[{_OPEN_WITHIN}])) == 1"


def recording_rules() -> list[dict[str, Any]]:
    """Return what is recorded."""
    return [
        # The first scrape of an old process is no event: its tools may have failed long ago. Every
        # process shows its faults, all 0, before it runs a tool, also one that calls no model.
        {
            "record": name,
            "expr": added(
                names.TOOL_CALLS_EXECUTED,
                _WINDOW,
                which,
                by=(JOB, TOOL),
                only_if=series(names.FAULTS),
            ),
        }
        for name, which in ((_SETTLED, SETTLED), (_FAILING, FAILING))
    ]


def alert_rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    return [_tool_failing(), _breaker_open()]


def _tool_failing() -> dict[str, Any]:
    return alert(
        "ToolFailing",
        f"{_FAILING} / ({_SETTLED} > 0) > 0.2 and {_FAILING} >= 5",
        hold="5m",
        severity="ticket",
        summary=f"{SHARE} of the executions of {{{{ $labels.{TOOL} }}}} in {JOB_NAME} fail.",
        description="Look at the board Tool runtime: the panel Why they fail tells whether it is the tool, its access or the model.",
    )


def _breaker_open() -> dict[str, Any]:
    return alert(
        "BreakerOpen",
        breaker_open(),
        hold="5m",
        severity="ticket",
        summary=f"The breaker of {{{{ $labels.{TOOL} }}}} in {JOB_NAME} stays open: its calls are refused.",
        description="Look at the tool, not at the breaker: the log event breaker_opened tells the reason.",
    )
