"""Breakers: which are open, since when, and why they changed."""

from __future__ import annotations

from typing import Any

from dashboards.generate import links, tool_rules
from dashboards.generate.fields import Limits
from dashboards.generate.panels import stat
from dashboards.generate.promql import FROM, JOB, REASON, STATE, TO, TOOL, added, series
from dashboards.generate.runtime.counts import RANGE
from dashboards.generate.runtime.scope import OF_TOOL
from dashboards.generate.tables import counts
from dashboards.generate.timelines import State, timeline
from toolmend.telemetry import names

STATES = {
    "closed": State(value=0, text="closed", color="green"),
    "disabled": State(value=0.5, text="disabled", color="text"),
    "half_open": State(value=1, text="half open", color="orange"),
    "open": State(value=2, text="open", color="red"),
    "forced_open": State(value=3, text="forced open", color="purple"),
}
"""From best to worst: of several replicas the worst is shown. A disabled breaker guards nobody, so it
is worse than a closed one; a forced one was opened by a person, who wants to see it."""

_STEP = "2m"
"""Two exports fall into it: bars have no gaps, and an opening of a minute is not missed."""


def breakers_open() -> Any:
    """Return how many are open."""
    return stat(
        "Breakers open",
        "Tools whose breaker is open in a replica, or was within the last minutes: one that probes "
        "and opens again is open. Those that were forced open by code do not count.",
        f"count({tool_rules.breaker_open(OF_TOOL)}) or vector(0)",
        decimals=0,
        limits=Limits(red=1),
        links=[
            links.explore_logs(
                "Logs of breakers", links.logs_of(names.LOG_BREAKER_OPENED, tool=links.TOOLS)
            )
        ],
    )


def breakers() -> Any:
    """Return the states over time."""
    coded = " or ".join(f"{_worst_of(name)} * {state.value:g}" for name, state in STATES.items())
    return timeline(
        "Breakers",
        "Of each tool's breaker the worst state within a step and among replicas: closed, disabled "
        "in code, half open (it lets a probe through), open, forced open in code.",
        f"max by ({JOB}, {TOOL}) ({coded})",
        legend=f"{{{{{TOOL}}}}} ({{{{{JOB}}}}})",
        states=list(STATES.values()),
        step=_STEP,
        links=[
            links.explore_logs(
                "Logs of breakers", links.logs_of(names.LOG_BREAKER_OPENED, tool=links.TOOLS)
            )
        ],
    )


def transitions() -> Any:
    """Return what breakers did."""
    changed = added(names.BREAKER_TRANSITIONS, RANGE, OF_TOOL, by=[JOB, TOOL, FROM, TO, REASON])
    return counts(
        "Transitions of breakers",
        "How often breakers changed their state in the time shown, and why. Many from half open to "
        "open: the tool has not come back. Many from half open to closed: it comes and goes.",
        f"topk(20, {changed} > 0)",
        labels={JOB: "Service", TOOL: "Tool", FROM: "From", TO: "To", REASON: "Reason"},
        value="Times",
    )


def _worst_of(state: str) -> str:
    selected = series(names.BREAKER_STATE, OF_TOOL, f'{STATE}="{state}"')
    return f"max_over_time({selected}[$__interval])"
