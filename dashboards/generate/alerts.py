"""Alerts on a board: how many fire now, and when they did."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import stat as stat_builders

from dashboards.generate.fields import Limits
from dashboards.generate.panels import stat
from dashboards.generate.promql import JOB, TOOL
from dashboards.generate.sources import METRICS
from dashboards.generate.variables import OF_SERVICE

_FIRING = f'ALERTS{{alertname=~"Toolmend.*",alertstate="firing",{OF_SERVICE}}}'


def alerts_firing() -> stat_builders.Panel:
    """Return how many alerts fire now."""
    return stat(
        "Alerts",
        "Alerts of toolmend that fire now for the services chosen.",
        f"count({_FIRING}) or vector(0)",
        decimals=0,
        limits=Limits(red=1),
    )


def alerts_over_time() -> builders.AnnotationQuery:
    """Return marks where alerts began to fire."""
    return (
        builders.AnnotationQuery()
        .name("Alerts")
        .datasource(METRICS)
        .enable(True)
        .icon_color("red")
        .expr(_FIRING)
        .title_format("{{alertname}}")
        .text_format(f"{{{{{JOB}}}}} {{{{{TOOL}}}}}")
        .step("60s")
    )
