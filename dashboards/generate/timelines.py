"""Timelines: one bar per thing, coloured by the state that it was in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import statetimeline as timeline_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import FieldColorModeId, ValueMap, ValueMappingResult

from dashboards.generate.sources import METRICS, ranged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.builders.dashboard import DashboardLink

_ROWS = 10
"""So many bars fit; the panel turns pages for more."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A state: the number that a query gives for it, and how it looks."""

    value: float
    text: str
    color: str


def timeline(
    title: str,
    description: str,
    expr: str,
    *,
    legend: str,
    states: Sequence[State],
    step: str,
    links: Sequence[DashboardLink] = (),
) -> timeline_builders.Panel:
    """Return states over time.

    Args:
        title: the panel's head.
        description: what it shows.
        expr: for each thing the number of its state.
        legend: what a thing is called, with `{{label}}` for values of labels.
        states: all of them.
        step: the least `$__interval`.
        links: where a click leads.
    """
    mapped = {
        f"{state.value:g}": ValueMappingResult(text=state.text, color=state.color, index=index)
        for index, state in enumerate(states)
    }
    legend_options = (
        common_builders.VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
    )
    panel = (
        timeline_builders.Panel()
        .title(title)
        .description(description)
        .datasource(METRICS)
        .mappings([ValueMap(options=mapped)])
        .color_scheme(dashboard_builders.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .no_value("no breakers")
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .per_page(_ROWS)
        .row_height(0.8)
        .legend(legend_options)
        .interval(step)
        .with_target(ranged(expr, "A", legend, step=step))
    )
    if links:
        panel.data_links(list(links))
    return panel
