"""Sources: where a board's data come from, and how a query to each of them is put."""

from __future__ import annotations

from grafana_foundation_sdk.builders import loki, prometheus, tempo
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.tempo import SearchTableType

METRICS = DataSourceRef(type_val="prometheus", uid="${metrics}")
LOGS = DataSourceRef(type_val="loki", uid="${logs}")
TRACES = DataSourceRef(type_val="tempo", uid="${traces}")

MIN_STEP = "1m"
"""OpenTelemetry SDKs export every 60 s unless told otherwise, and Grafana takes 15 s for granted: a
rate over four times that has no two samples. With this step `$__rate_interval` is 4 minutes or more."""


def instant(expr: str, name: str) -> prometheus.Dataquery:
    """Return a query for the values of one moment."""
    return prometheus.Dataquery().expr(expr).ref_id(name).datasource(METRICS).instant()


def ranged(
    expr: str, name: str, legend: str, *, exemplars: bool = False, step: str = MIN_STEP
) -> prometheus.Dataquery:
    """Return a query for values over time, a `step` apart at least."""
    query = prometheus.Dataquery().expr(expr).ref_id(name).datasource(METRICS).range()
    query.legend_format(legend).interval(step)
    return query.exemplar(True) if exemplars else query


def records(expr: str) -> loki.Dataquery:
    """Return a query for the newest log records."""
    return _of_logs(expr, "range").max_lines(100)


def counted_records(expr: str) -> loki.Dataquery:
    """Return a query for numbers that are counted from log records."""
    return _of_logs(expr, "instant")


def spans(query: str) -> tempo.Dataquery:
    """Return a query in TraceQL whose answer is a table of spans."""
    made = tempo.Dataquery().query_type("traceql").query(query).limit(20)
    return made.table_type(SearchTableType.SPANS).ref_id("A").datasource(TRACES)


def _of_logs(expr: str, kind: str) -> loki.Dataquery:
    return loki.Dataquery().expr(expr).query_type(kind).ref_id("A").datasource(LOGS)
