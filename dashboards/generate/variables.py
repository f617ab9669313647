"""Variables: what a reader of a board may choose, and what narrows the queries by it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models.dashboard import (
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.generate.promql import JOB, TOOL
from dashboards.generate.sources import METRICS

OF_SERVICE = f'{JOB}=~"$job"'
BY_TOOL = f'{TOOL}=~"$tool"'

SOURCES = ("metrics", "logs", "traces")


def sources() -> list[builders.DatasourceVariable]:
    """Return the variables for the sources of data; their names are those of `SOURCES`."""
    return [
        builders.DatasourceVariable("metrics").label("Metrics").type("prometheus"),
        builders.DatasourceVariable("logs").label("Logs").type("loki"),
        builders.DatasourceVariable("traces").label("Traces").type("tempo"),
    ]


def services(selector: str) -> list[builders.QueryVariable]:
    """Return the variable that chooses services, and the hidden one that traces and logs know them by.

    Args:
        selector: a metric that every service on this board has.
    """
    of_service = f"{selector}{{{OF_SERVICE}}}"
    return [
        choice("job", "Service", selector, JOB),
        # Traces and logs know service.name; the job puts service.namespace and a slash before it.
        # No all_value: "All" then stands for the services of the chosen jobs.
        _query("service", of_service, JOB)
        .regex("/(?:.*\\/)?(.+)/")
        .hide(VariableHide.HIDE_VARIABLE),
    ]


def choice(name: str, label: str, selector: str, key: str) -> builders.QueryVariable:
    """Return a variable that chooses among the values of a label.

    Args:
        name: what queries call it.
        label: what the reader calls it.
        selector: the series that are looked at.
        key: the label in Prometheus.
    """
    return _query(name, selector, key).label(label).all_value(".*")


def _query(name: str, selector: str, key: str) -> builders.QueryVariable:
    query = f"label_values({selector}, {key})"
    return (
        builders.QueryVariable(name)
        .datasource(METRICS)
        .query(query)
        .definition(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )
