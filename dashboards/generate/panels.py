"""Panels: the few kinds that the boards use, with what the SDK leaves out set once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import logs as logs_builders
from grafana_foundation_sdk.builders import loki, prometheus
from grafana_foundation_sdk.builders import stat as stat_builders
from grafana_foundation_sdk.builders import table as table_builders
from grafana_foundation_sdk.builders import text as text_builders
from grafana_foundation_sdk.builders import timeseries as timeseries_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grafana_foundation_sdk.builders.dashboard import DashboardLink

METRICS = DataSourceRef(type_val="prometheus", uid="${metrics}")
LOGS = DataSourceRef(type_val="loki", uid="${logs}")

MIN_STEP = "1m"
"""OpenTelemetry SDKs export every 60 s unless told otherwise, and Grafana takes 15 s for granted: a
rate over four times that has no two samples. With this step `$__rate_interval` is 4 minutes or more."""

PERCENT = "percentunit"
SECONDS = "s"
PER_SECOND = "reqps"
COUNT = "short"
TIMES = "suffix: ×"  # noqa: RUF001 - the sign


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a value turns orange and red; None where it never does."""

    orange: float | None = None
    red: float | None = None

    def build(self) -> dashboard_builders.ThresholdsConfig:
        """Return the thresholds in the SDK's terms."""
        steps = [Threshold(color="green", value=None)]
        steps += [
            Threshold(color=color, value=value)
            for color, value in (("orange", self.orange), ("red", self.red))
            if value is not None
        ]
        return dashboard_builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


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


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table, after the label that its rows are named by.

    Attributes:
        title: its head.
        expr: the PromQL; its value is shown.
        unit: of the value.
        limits: where its cells turn orange and red.
    """

    title: str
    expr: str
    unit: str = COUNT
    limits: Limits | None = None


def stat(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str = COUNT,
    limits: Limits | None = None,
    decimals: int | None = None,
    empty: str = "no data",
    links: Sequence[DashboardLink] = (),
) -> stat_builders.Panel:
    """Return one number over its own recent course."""
    panel = (
        stat_builders.Panel()
        .title(title)
        .description(description)
        .datasource(METRICS)
        .unit(unit)
        .thresholds((limits or Limits()).build())
        .no_value(empty)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_instant(expr, "A"))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if links:
        panel.data_links(list(links))
    return panel


def chart(
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    unit: str,
    limits: Limits | None = None,
    maximum: float | None = None,
    stacked: bool = False,
    links: Sequence[DashboardLink] = (),
) -> timeseries_builders.Panel:
    """Return lines over time."""
    panel = _over_time(title, description, unit, limits, links)
    panel.line_width(1).fill_opacity(25 if stacked else 5)
    panel.show_points(common.VisibilityMode.AUTO).span_nulls(False)
    if maximum is not None:
        panel.axis_soft_max(maximum)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for number, one in enumerate(series):
        name = chr(ord("A") + number)
        panel.with_target(_range(one.expr, name, one.legend, exemplars=one.exemplars))
        properties = _looks(one)
        if properties:
            panel.override_by_query(name, properties)
    return panel


def bars(
    title: str,
    description: str,
    series: Series,
    *,
    unit: str = COUNT,
    step: str,
    links: Sequence[DashboardLink] = (),
) -> timeseries_builders.Panel:
    """Return stacked bars, one per step at least.

    Args:
        title: the panel's head.
        description: what it shows.
        series: its query, over `$__interval`.
        unit: of the values.
        step: the least `$__interval`.
        links: where a click leads.
    """
    panel = _over_time(title, description, unit, None, links)
    panel.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    panel.bar_alignment(common.BarAlignment.BEFORE)
    panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    panel.interval(step)
    return panel.with_target(_range(series.expr, "A", series.legend, step=step))


def table(
    title: str,
    description: str,
    *,
    label: str,
    head: str,
    columns: Sequence[Column],
    links: Sequence[DashboardLink] = (),
) -> table_builders.Panel:
    """Return a table: a row per value of a label, most in the first column on top.

    Args:
        title: the panel's head.
        description: what it shows.
        label: the label that all queries keep.
        head: the head of its column.
        columns: the queries.
        links: where a click on the label leads.
    """
    panel = _table(title, description, METRICS)
    values = {}
    for number, column in enumerate(columns):
        name = chr(ord("A") + number)
        panel.with_target(_instant(column.expr, name).format(PromQueryFormat.TABLE))
        field = f"Value #{name}" if len(columns) > 1 else "Value"
        values[field] = column.title
        properties = {"unit": column.unit, "decimals": 0 if column.unit == COUNT else 1}
        if column.limits is not None:
            properties["thresholds"] = column.limits.build().build()
            properties["custom.cellOptions"] = {"type": "color-text"}
        panel.override_by_name(column.title, _properties(properties))
    first = next(iter(values))
    panel.override_by_name(head, _properties({"links": [link.build() for link in links]}))
    return panel.transformations(
        [
            DataTransformerConfig(id_val="merge", options={}),
            DataTransformerConfig(
                id_val="sortBy", options={"sort": [{"field": first, "desc": True}]}
            ),
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: n for n, name in enumerate([label, *values])},
                    "renameByName": {label: head, **values},
                },
            ),
        ]
    )


def log_counts(
    title: str,
    description: str,
    *,
    label: str,
    head: str,
    value: str,
    expr: str,
    links: Sequence[DashboardLink] = (),
) -> table_builders.Panel:
    """Return a table of counted log records: a row per value of a label."""
    query = loki.Dataquery().expr(expr).query_type("instant").ref_id("A").datasource(LOGS)
    panel = _table(title, description, LOGS).with_target(query)
    panel.override_by_name(head, _properties({"links": [link.build() for link in links]}))
    return panel.transformations(
        [
            DataTransformerConfig(id_val="merge", options={}),
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "renameByName": {label: head, "Value #A": value},
                },
            ),
            DataTransformerConfig(
                id_val="sortBy", options={"sort": [{"field": value, "desc": True}]}
            ),
        ]
    )


def log_lines(title: str, description: str, expr: str) -> logs_builders.Panel:
    """Return log records, newest first."""
    query = (
        loki.Dataquery().expr(expr).query_type("range").max_lines(100).ref_id("A").datasource(LOGS)
    )
    return (
        logs_builders.Panel()
        .title(title)
        .description(description)
        .datasource(LOGS)
        .show_time(True)
        .enable_log_details(True)
        .sort_order(common.LogsSortOrder.DESCENDING)
        .with_target(query)
    )


def note(title: str, content: str) -> text_builders.Panel:
    """Return a few words in Markdown."""
    return text_builders.Panel().title(title).mode(TextMode.MARKDOWN).content(content)


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


def _table(title: str, description: str, source: DataSourceRef) -> table_builders.Panel:
    return (
        table_builders.Panel()
        .title(title)
        .description(description)
        .datasource(source)
        .no_value("none")
        .cell_height(common.TableCellHeight.SM)
    )


def _looks(series: Series) -> list[DynamicConfigValue]:
    properties: dict[str, object] = {}
    if series.dashed:
        properties["custom.lineStyle"] = {"fill": "dash", "dash": [8, 6]}
        properties["custom.fillOpacity"] = 0
    if series.color:
        properties["color"] = {"mode": "fixed", "fixedColor": series.color}
    return _properties(properties)


def _properties(values: Mapping[str, object]) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(id_val=name, value=value) for name, value in values.items()]


def _instant(expr: str, name: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).ref_id(name).datasource(METRICS).instant()


def _range(
    expr: str, name: str, legend: str, *, exemplars: bool = False, step: str = MIN_STEP
) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expr).ref_id(name).datasource(METRICS).range()
    query.legend_format(legend).interval(step)
    return query.exemplar(True) if exemplars else query
