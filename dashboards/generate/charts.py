"""Charts: values over time, as lines, as bars and as the spread of a histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import heatmap as heatmap_builders
from grafana_foundation_sdk.builders import timeseries as timeseries_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.generate.fields import COUNT, Limits, properties
from dashboards.generate.sources import METRICS, MIN_STEP, ranged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

_ALMOST_NONE = 1e-9
"""Cells with less in them stay empty."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One query of a chart.

    Attributes:
        expr: the PromQL.
        legend: what it is called, with `{{label}}` for values of labels.
        dashed: drawn as a dashed line.
        color: a fixed colour.
        exemplars: whether traces are shown as dots.
    """

    expr: str
    legend: str
    dashed: bool = False
    color: str = ""
    exemplars: bool = False


def chart(
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    unit: str,
    limits: Limits | None = None,
    maximum: float | None = None,
    stacked: bool = False,
    step: str = MIN_STEP,
    links: Sequence[DashboardLink] = (),
) -> timeseries_builders.Panel:
    """Return lines over time, their points a `step` apart at least."""
    panel = _over_time(title, description, unit, limits, links)
    panel.line_width(1).fill_opacity(25 if stacked else 5)
    panel.show_points(common.VisibilityMode.AUTO).span_nulls(False)
    if step != MIN_STEP:
        panel.interval(step)  # what `$__interval` is at least
    if maximum is not None:
        panel.axis_soft_max(maximum)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for number, one in enumerate(series):
        name = chr(ord("A") + number)
        panel.with_target(ranged(one.expr, name, one.legend, exemplars=one.exemplars, step=step))
        if looks := _looks(one):
            panel.override_by_query(name, looks)
    return panel


def bars(
    title: str,
    description: str,
    series: Series,
    *,
    unit: str = COUNT,
    step: str,
    colors: Mapping[str, str] | None = None,
    links: Sequence[DashboardLink] = (),
) -> timeseries_builders.Panel:
    """Return stacked bars, one per step at least.

    Args:
        title: the panel's head.
        description: what it shows.
        series: its query, over `$__interval`.
        unit: of the values.
        step: the least `$__interval`.
        colors: fixed colours, by the name of the bar.
        links: where a click leads.
    """
    panel = _over_time(title, description, unit, None, links)
    panel.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    panel.bar_alignment(common.BarAlignment.BEFORE)
    panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    panel.interval(step)
    for name, color in (colors or {}).items():
        panel.override_by_name(name, properties({"color": _fixed(color)}))
    return panel.with_target(ranged(series.expr, "A", series.legend, step=step))


def heatmap(
    title: str, description: str, expr: str, *, unit: str, step: str
) -> heatmap_builders.Panel:
    """Return how values are spread over the buckets of a histogram, over time.

    Args:
        title: the panel's head.
        description: what it shows.
        expr: counts by `le`.
        unit: of the values, not of their counts.
        step: the least `$__interval`.
    """
    query = ranged(expr, "A", "{{le}}", step=step).format(PromQueryFormat.HEATMAP)
    return (
        heatmap_builders.Panel()
        .title(title)
        .description(description)
        .datasource(METRICS)
        .unit(COUNT)
        .calculate(False)
        .y_axis(heatmap_builders.YAxisConfig().unit(unit))
        .cell_values(heatmap_builders.CellValues().decimals(0))
        .color(
            heatmap_builders.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .scale(HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .fill("dark-orange")
            .steps(64)
        )
        .tooltip(
            heatmap_builders.HeatmapTooltip()
            .mode(common.TooltipDisplayMode.SINGLE)
            .y_histogram(True)
        )
        .filter_values(heatmap_builders.FilterValueRange().le(_ALMOST_NONE))
        .interval(step)
        .with_target(query)
    )


def _over_time(
    title: str,
    description: str,
    unit: str,
    limits: Limits | None,
    links: Sequence[DashboardLink],
) -> timeseries_builders.Panel:
    legend = (
        common_builders.VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
    )
    tooltip = (
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
    panel = (
        timeseries_builders.Panel()
        .title(title)
        .description(description)
        .datasource(METRICS)
        .unit(unit)
        .min(0)
        .legend(legend)
        .tooltip(tooltip)
        .thresholds((limits or Limits()).build())
    )
    if limits is not None:
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(
                common.GraphThresholdsStyleMode.DASHED
            )
        )
    if links:
        panel.data_links(list(links))
    return panel


def _looks(series: Series) -> list[DynamicConfigValue]:
    looks: dict[str, object] = {}
    if series.dashed:
        looks["custom.lineStyle"] = {"fill": "dash", "dash": [8, 6]}
        looks["custom.fillOpacity"] = 0
    if series.color:
        looks["color"] = _fixed(series.color)
    return properties(looks)


def _fixed(color: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": color}
