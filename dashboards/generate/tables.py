"""Tables: a row for each value of a label, with numbers from metrics or log records, or for each span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import table as table_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.generate.fields import COUNT, Limits, properties
from dashboards.generate.sources import LOGS, METRICS, TRACES, counted_records, instant, spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.common import DataSourceRef


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
        panel.with_target(instant(column.expr, name).format(PromQueryFormat.TABLE))
        field = f"Value #{name}" if len(columns) > 1 else "Value"
        values[field] = column.title
        looks = {"unit": column.unit, "decimals": 0 if column.unit == COUNT else 1}
        if column.limits is not None:
            looks["thresholds"] = column.limits.build().build()
            looks["custom.cellOptions"] = {"type": "color-text"}
        panel.override_by_name(column.title, properties(looks))
    first = next(iter(values))
    panel.override_by_name(head, properties({"links": [link.build() for link in links]}))
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


def counts(
    title: str, description: str, expr: str, *, labels: Mapping[str, str], value: str
) -> table_builders.Panel:
    """Return a table of one query: a row per set of labels, most on top.

    Args:
        title: the panel's head.
        description: what it shows.
        expr: the PromQL.
        labels: the heads of its columns by the labels that the query keeps, from left to right.
        value: the head of the column with the numbers.
    """
    query = instant(expr, "A").format(PromQueryFormat.TABLE)
    panel = _table(title, description, METRICS).with_target(query)
    panel.override_by_name(value, properties({"unit": COUNT, "decimals": 0}))
    return panel.transformations(
        [
            DataTransformerConfig(
                id_val="sortBy", options={"sort": [{"field": "Value", "desc": True}]}
            ),
            DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: n for n, name in enumerate([*labels, "Value"])},
                    "renameByName": {**labels, "Value": value},
                },
            ),
        ]
    )


def found_spans(title: str, description: str, query: str) -> table_builders.Panel:
    """Return a table of spans, a row each, with the attributes that the TraceQL selects."""
    return _table(title, description, TRACES).with_target(spans(query))


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
    panel = _table(title, description, LOGS).with_target(counted_records(expr))
    panel.override_by_name(head, properties({"links": [link.build() for link in links]}))
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


def _table(title: str, description: str, source: DataSourceRef) -> table_builders.Panel:
    return (
        table_builders.Panel()
        .title(title)
        .description(description)
        .datasource(source)
        .no_value("none")
        .cell_height(common.TableCellHeight.SM)
    )
