"""A board: annotations and links that all boards share, its own variables, and panels put into rows."""

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
)

from dashboards.generate.alerts import alerts_over_time
from dashboards.generate.promql import JOB
from dashboards.generate.sources import METRICS
from dashboards.generate.variables import OF_SERVICE

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = "toolmend"
WIDTH = 24


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


def board(
    uid: str, title: str, description: str, variables: Sequence[Any], lines: Sequence[Line]
) -> dict[str, Any]:
    """Return a whole board as Grafana's JSON model.

    Args:
        uid: what addresses name it by; it never changes.
        title: its name.
        description: the question that it answers.
        variables: what its reader may choose.
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
        .annotation(alerts_over_time())
        .annotation(_deploys())
    )
    for variable in variables:
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


def _without(value: Any, key: str) -> Any:
    """Return a JSON value without one key, at any depth.

    The SDK's newest release hides links and annotations in a menu by it.
    """
    if isinstance(value, dict):
        return {name: _without(inner, key) for name, inner in value.items() if name != key}
    if isinstance(value, list):
        return [_without(inner, key) for inner in value]
    return value
