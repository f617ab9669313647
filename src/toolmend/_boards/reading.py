"""Boards as data: which panel asks what, in the order in which a person reads them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from toolmend._boards.files import BOARDS, shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Language = Literal["promql", "logql", "traceql"]
Place = Literal["panel", "annotation", "variable"]

_LANGUAGES: Final[dict[str, Language]] = {
    "prometheus": "promql",
    "loki": "logql",
    "tempo": "traceql",
}
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)")
_LABEL_VALUES: Final = re.compile(r"label_values\((?P<selector>.+), *(?P<label>\w+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a board.

    Attributes:
        place: what asks it.
        title: the title of the panel, or the name of the annotation or variable.
        language: what it is written in.
        text: the query, with Grafana's variables in it.
        legend: what its series are called.
        column: the head of the table's column that shows it; empty outside tables.
        unit: Grafana's id of its unit, as ``percentunit``.
        row: the upper edge of the panel in grid units; 0 for annotations and variables.
        is_instant: whether it asks for one moment only.
        label: whose values a variable asks for; then ``text`` is only the selector.
    """

    place: Place
    title: str
    language: Language
    text: str
    legend: str = ""
    column: str = ""
    unit: str = ""
    row: int = 0
    is_instant: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board and all its queries: panels from top to bottom, then annotations, then variables."""

    uid: str
    title: str
    queries: tuple[Query, ...]


def read_boards() -> tuple[Board, ...]:
    """Return the boards that come with toolmend.

    Raises:
        BoardFilesError: this installation lacks them.
    """
    texts = shipped()
    return tuple(
        read_board(json.loads(text)) for path, text in texts.items() if path.startswith(BOARDS)
    )


def read_board(model: Mapping[str, Any]) -> Board:
    """Read a board.

    Args:
        model: the JSON model, as Grafana's classic format has it.
    """
    return Board(
        uid=model["uid"],
        title=model["title"],
        queries=(*_of_panels(model), *_of_annotations(model), *_of_variables(model)),
    )


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a query with its variables filled in, ``$name`` and ``${name:format}`` alike.

    Raises:
        KeyError: a variable has no value.
    """
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def _of_panels(model: Mapping[str, Any]) -> Iterator[Query]:
    def position(panel: Mapping[str, Any]) -> tuple[int, int]:
        return panel["gridPos"]["y"], panel["gridPos"]["x"]

    for panel in sorted(model["panels"], key=position):
        units = _units(panel)
        columns = _columns(panel)
        for target in panel.get("targets", ()):
            column = columns.get(target.get("refId"), "")
            yield Query(
                place="panel",
                title=panel["title"],
                language=_LANGUAGES[target["datasource"]["type"]],
                text=target.get("expr") or target["query"],
                legend=target.get("legendFormat", ""),
                column=column,
                unit=units.get(column, units[""]),
                row=panel["gridPos"]["y"],
                is_instant=target.get("instant") or target.get("queryType") == "instant",
            )


def _columns(panel: Mapping[str, Any]) -> dict[str, str]:
    """Return the head of a table's column by the reference of its query; only tables rename fields."""
    renamed: dict[str, str] = {}
    for step in panel.get("transformations", ()):
        renamed.update(step["options"].get("renameByName", {}))
    return {
        field.removeprefix("Value #"): head
        for field, head in renamed.items()
        if field.startswith("Value #")
    }


def _units(panel: Mapping[str, Any]) -> dict[str, str]:
    """Return the units of a panel by column; the panel's own has no name."""
    config = panel.get("fieldConfig", {})
    units = {"": config.get("defaults", {}).get("unit", "")}
    for override in config.get("overrides", ()):
        for change in override["properties"]:
            if change["id"] == "unit":
                units[override["matcher"]["options"]] = change["value"]
    return units


def _of_annotations(model: Mapping[str, Any]) -> Iterator[Query]:
    for annotation in model["annotations"]["list"]:
        yield Query(
            place="annotation", title=annotation["name"], language="promql", text=annotation["expr"]
        )


def _of_variables(model: Mapping[str, Any]) -> Iterator[Query]:
    for variable in model["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.fullmatch(variable["query"])
            if found is None:
                raise ValueError(f"variable {variable['name']} asks for no label's values")
            yield Query(
                place="variable",
                title=variable.get("label") or variable["name"],
                language="promql",
                text=found["selector"],
                label=found["label"],
            )
