"""Panels that are neither chart nor table: one number, log records, a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import logs as logs_builders
from grafana_foundation_sdk.builders import stat as stat_builders
from grafana_foundation_sdk.builders import text as text_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.text import TextMode

from dashboards.generate.fields import COUNT, Limits
from dashboards.generate.sources import LOGS, METRICS, instant, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.builders.dashboard import DashboardLink


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
        .with_target(instant(expr, "A"))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if links:
        panel.data_links(list(links))
    return panel


def log_lines(title: str, description: str, expr: str) -> logs_builders.Panel:
    """Return log records, newest first."""
    return (
        logs_builders.Panel()
        .title(title)
        .description(description)
        .datasource(LOGS)
        .show_time(True)
        .enable_log_details(True)
        .sort_order(common.LogsSortOrder.DESCENDING)
        .with_target(records(expr))
    )


def note(title: str, content: str) -> text_builders.Panel:
    """Return a few words in Markdown."""
    return text_builders.Panel().title(title).mode(TextMode.MARKDOWN).content(content)
