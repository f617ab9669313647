"""The table of `toolmend dashboards check`: panel, query and present value, in the board's order."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend._boards.answers import Answer
    from toolmend._boards.prometheus import Sample
    from toolmend._boards.reading import Board, Query

_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_MOST_SERIES: Final = 5
_NARROWED: Final = re.compile(r'\w+=~"\$\w+"(,\w+=~"\$\w+")*')
_LEGEND: Final = re.compile(r"\{\{ *(\w+) *\}\}")


def answers_table(board: Board, answers: Sequence[Answer], *, full: bool = False) -> Table:
    """Return the table of one board.

    Args:
        board: the board.
        answers: what was found, in its order.
        full: whether queries show the conditions that only repeat the board's variables.
    """
    table = Table(title=board.title, title_justify="left", expand=True, show_lines=True)
    table.add_column("panel", ratio=2, overflow="fold")
    table.add_column("now", ratio=3, overflow="fold")
    heading = "query" if full else "query (… is what the board's variables narrow)"
    table.add_column(heading, ratio=7, overflow="fold", style="dim")
    before = ""
    for answer in answers:
        query = answer.query
        head = query.title if query.place == "panel" else f"{query.place} {query.title}"
        shown = [] if head == before else [head]
        before = head
        if query.column:
            shown.append(f"  {query.column}")
        text = query.text if full else _NARROWED.sub("…", query.text)
        if query.label:
            text = f"label_values({text}, {query.label})"
        table.add_row(Text("\n".join(shown)), _now(answer), Text(text))
    return table


def summary(answers: Sequence[Answer]) -> str:
    """Return in one line how many queries found something."""
    asked = [answer for answer in answers if answer.samples is not None or answer.refusal]
    empty = sum(answer.is_empty for answer in asked)
    refused = sum(bool(answer.refusal) for answer in asked)
    others = len(answers) - len(asked)
    return (
        f"{len(asked) - empty - refused} of {len(asked)} queries found something, {empty} found "
        f"nothing, {refused} were refused; {others} are for Loki or Tempo and were not asked."
    )


def _now(answer: Answer) -> Text:
    if answer.refusal:
        return _plain(answer.refusal, style="red")
    if answer.values:
        return _plain("\n".join(_short(list(answer.values))))
    if answer.samples is None:
        return Text("not asked: needs Loki or Tempo", style="dim")
    if not answer.samples:
        return Text("nothing", style="yellow")
    most = sorted(answer.samples, key=_size, reverse=True)
    return _plain("\n".join(_short([_line(sample, answer.query) for sample in most])))


def _plain(text: str, style: str = "") -> Text:
    """Return a text as it may be shown: labels can hold what users typed, control characters too."""
    return Text(_CONTROL.sub("�", text), style=style)


def _short(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_SERIES
    return lines if more <= 1 else [*lines[:_MOST_SERIES], f"and {more} more"]


def _size(sample: Sample) -> float:
    return -math.inf if math.isnan(sample.value) else sample.value


def _line(sample: Sample, query: Query) -> str:
    name = _LEGEND.sub(lambda found: sample.labels.get(found[1], ""), query.legend)
    if not name:
        name = " ".join(
            value for label, value in sorted(sample.labels.items()) if label != "__name__"
        )
    return f"{name} {_number(sample.value, query.unit)}".strip()


def _number(value: float, unit: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "s":
        return f"{value:,.3g} s" if value >= 1 else f"{value * 1000:,.3g} ms"
    if unit == "reqps":
        return f"{value:,.3g} per second"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
