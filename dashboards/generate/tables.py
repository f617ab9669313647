"""Tables: a row for each value of a label, with numbers from metrics or from log records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import table as table_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.generate.fields import COUNT, Limits, properties
from dashboards.generate.sources import LOGS, METRICS, counted_records, instant

if TYPE_CHECKING:
    from collections.abc import Sequence

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
