"""The closing of a demo: the tables, what they mean, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rich.table import Table
from rich.text import Text

from toolmend._demo.phases import TROUBLES
from toolmend._demo.report import CauseRow, ModelRow, Report
from toolmend.cli.demo_lines import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType


_REFUSED: Final = "would be\nrefused"
_SHOWN_THREADS: Final = 12
_MAX_NAMES: Final = 4


def closing_tables(report: Report) -> list[RenderableType]:
    """Return the tables: per model, tool, thread and cause."""
    tables = [_models(report), _tools(report), _threads(report), _causes(report)]
    return [line for table in tables for line in (table, Text(""))]


def _models(report: Report) -> Table:
    table = _table(
        "per model", "requests", "mended", _REFUSED, "requested", "dangling", "patch rate"
    )
    rows: list[ModelRow | Report] = [*report.models, report]
    for row in rows:
        cells = (
            "all" if isinstance(row, Report) else row.name,
            *map(str, (row.requests, row.mended, row.refused, row.requested, row.firsts)),
            percent(row.rate),
        )
        table.add_row(*cells, style="bold" if row is report else None)
    return table


def _tools(report: Report) -> Table:
    table = _table("per tool", "requested", "dangling", "repeats", "patch rate")
    table.add_column("main cause")
    for row in report.tools:
        numbers = map(str, (row.requested, row.firsts, row.repeats))
        table.add_row(row.name, *numbers, percent(row.rate), row.main_cause or "-")
    return table


def _threads(report: Report) -> Table:
    table = _table("per thread", "requests", _REFUSED, "dangling", "repeats")
    table.add_column("model", vertical="bottom")
    table.add_column("mended store", vertical="bottom")
    worst = sorted(report.threads, key=lambda row: -row.firsts)[:_SHOWN_THREADS]
    for row in report.threads:
        if row in worst:
            numbers = map(str, (row.requests, row.refused, row.firsts, row.repeats))
            keeps = Text("yes", "green") if row.keeps_mends else Text("no", "yellow")
            table.add_row(row.name, *numbers, row.model, keeps)
    if len(report.threads) > len(worst):
        table.add_row(f"and {len(report.threads) - len(worst)} more")
    return table


def _causes(report: Report) -> Table:
    table = _table("per cause", "dangling", vertical="top")
    table.add_column("what had happened")
    for row in report.causes:
        origins = ", ".join(f"{trouble} {amount}" for trouble, amount in row.origins)
        table.add_row(row.name, str(row.firsts), origins)
    return table


def _table(title: str, *numbers: str, vertical: Literal["top", "bottom"] = "bottom") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, min_width=11, vertical=vertical)
    for head in numbers:
        table.add_column(head, justify="right", vertical=vertical)
    return table


def closing_sentences(report: Report) -> list[str]:
    """Return what the numbers say."""
    if not report.firsts:
        return ["The run ended before a tool call lost its result; let it run to the end."]
    sentences = [_refusals(report), *_rates(report), *_repeats(report)]
    sentences.append(
        "dangling: a tool call without a result, counted once. repeats: the same call, mended "
        "again in a later request. Both are what toolmend's counters say in your telemetry."
    )
    return sentences


def _refusals(report: Report) -> str:
    stuck = sum(row.refused > 0 for row in report.threads)
    total = len(report.threads)
    if report.refused_all_the_same:
        outcome = f"With toolmend, {report.refused_all_the_same} were."
    else:
        outcome = "With toolmend, none was."
    return (
        f"{report.refused} of {report.requests} requests carried a history that a provider "
        f"refuses, and {stuck} of {total} conversations would have been stuck there. {outcome}"
    )


def _rates(report: Report) -> Iterable[str]:
    rates = ", ".join(f"{percent(row.rate)} {row.name}" for row in report.phases)
    if rates:
        yield f"The patch rate went {rates}: it follows the tools, so it is the alert to set."
    tool, cause = report.tools[0], report.causes[0]
    yield (
        f"{tool.name} lost most calls, {tool.firsts} of {tool.requested}. The most frequent cause "
        f"is {cause.name}, {_story(cause)}."
    )


def _story(cause: CauseRow) -> str:
    trouble = cause.origins[0][0] if cause.origins else ""
    story = TROUBLES.get(trouble, "of something that is not known")
    return f"most often because {story}"


def _repeats(report: Report) -> Iterable[str]:
    keeping = [row.name for row in report.threads if row.keeps_mends]
    losing = [row.name for row in report.threads if not row.keeps_mends and row.repeats]
    if not losing:
        return
    yield (
        f"{report.repeats} mends were repeats: the broken history stays in the stores of "
        f"{_names(losing)}, so every later request is mended anew. The stores of "
        f"{_names(keeping)} get the mended one back through on_repair, once. Mend the store, not "
        "only the request."
    )


def _names(names: Sequence[str]) -> str:
    if len(names) > _MAX_NAMES:
        return f"{len(names)} conversations"
    return " and ".join(", ".join(names).rsplit(", ", 1))
