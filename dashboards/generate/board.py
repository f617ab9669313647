"""A board: variables, annotations and links that all boards share, and panels put into rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.generate.panels import METRICS
from dashboards.generate.promql import JOB, MODEL, PROVIDER, TOOL, series
from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = "toolmend"
WIDTH = 24
VARIABLES = ("metrics", "logs", "traces", "job", "provider", "model", "tool")
"""What a link from board to board keeps."""

OF_SERVICE = f'{JOB}=~"$job"'
OF_MODEL = f'{OF_SERVICE},{PROVIDER}=~"$provider",{MODEL}=~"$model"'
OF_TOOL = f'{OF_MODEL},{TOOL}=~"$tool"'


@dataclass(frozen=True, kw_only=True)
class Place:
    """A panel and its width, in 24ths of the screen."""

    panel: Any
    width: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """Panels side by side.

    Attributes:
        height: of all of them, in grid units of about 38 pixels.
        places: the panels, from left to right.
    """

    height: int
    places: Sequence[Place]


def board(uid: str, title: str, description: str, lines: Sequence[Line]) -> dict[str, Any]:
    """Return a whole board as Grafana's JSON model.

    Args:
        uid: what addresses name it by; it never changes.
        title: its name.
        description: the question that it answers.
        lines: its panels.

    Raises:
        ValueError: a line is wider than the screen.
    """
    made = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .link(
            builders.DashboardLink("toolmend")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .annotation(_alerts())
        .annotation(_deploys())
    )
    for variable in _variables():
        made.with_variable(variable)
    top = 0
    number = 0
    for line in lines:
        left = 0
        for place in line.places:
            number += 1
            position = GridPos(x=left, y=top, w=place.width, h=line.height)
            made.with_panel(place.panel.id(number).grid_pos(position))
            left += place.width
        if left > WIDTH:
            raise ValueError(f"line {line} is {left} wide, and the screen is {WIDTH}")
        top += line.height
    plain = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return _without(plain, "placement")


def to_json(made: dict[str, Any]) -> str:
    """Return the text of a board's file: the same for the same board."""
    return json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _alerts() -> builders.AnnotationQuery:
    return (
        builders.AnnotationQuery()
        .name("Alerts")
        .datasource(METRICS)
        .enable(True)
        .icon_color("red")
        .expr(f'ALERTS{{alertname=~"Toolmend.*",alertstate="firing",{OF_SERVICE}}}')
        .title_format("{{alertname}}")
        .text_format(f"{{{{{JOB}}}}} {{{{{TOOL}}}}}")
        .step("60s")
    )


def _deploys() -> builders.AnnotationQuery:
    found = f'target_info{{service_version!="",{OF_SERVICE}}}'
    versions = f"count by ({JOB}, service_version)"
    known = f"{versions} (last_over_time({found}[1d] offset 5m))"
    return (
        builders.AnnotationQuery()
        .name("New versions")
        .datasource(METRICS)
        .enable(True)
        .icon_color("blue")
        .expr(f"{versions} ({found}) unless {known}")
        .title_format("{{service_version}}")
        .text_format(f"first telemetry of this version of {{{{{JOB}}}}}")
        .step("60s")
    )


def _variables() -> list[Any]:
    calls = names.MODEL_CALLS
    requested = names.TOOL_CALLS_REQUESTED
    jobs = f"label_values({series(calls)}, {JOB})"
    return [
        builders.DatasourceVariable("metrics").label("Metrics").type("prometheus"),
        builders.DatasourceVariable("logs").label("Logs").type("loki"),
        builders.DatasourceVariable("traces").label("Traces").type("tempo"),
        _choice("job", "Service", jobs),
        _choice("provider", "Provider", _values(series(calls, OF_SERVICE), PROVIDER)),
        _choice(
            "model",
            "Model",
            _values(series(calls, OF_SERVICE, f'{PROVIDER}=~"$provider"'), MODEL),
        ),
        _choice("tool", "Tool", _values(series(requested, OF_MODEL), TOOL)),
        # Traces and logs know service.name; the job puts service.namespace and a slash before it.
        # No all_value: "All" then stands for the services of the chosen jobs.
        _query("service", _values(series(calls, OF_SERVICE), JOB))
        .regex("/(?:.*\\/)?(.+)/")
        .hide(VariableHide.HIDE_VARIABLE),
    ]


def _values(selector: str, label: str) -> str:
    return f"label_values({selector}, {label})"


def _choice(name: str, label: str, query: str) -> builders.QueryVariable:
    return _query(name, query).label(label).all_value(".*")


def _query(name: str, query: str) -> builders.QueryVariable:
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


def _without(value: Any, key: str) -> Any:
    """Return a JSON value without one key, at any depth.

    The SDK's newest release hides links and annotations in a menu by it.
    """
    if isinstance(value, dict):
        return {name: _without(inner, key) for name, inner in value.items() if name != key}
    if isinstance(value, list):
        return [_without(inner, key) for inner in value]
    return value
