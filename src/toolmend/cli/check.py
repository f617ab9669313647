"""`toolmend check`: what is wrong with stored histories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.look import Look, look
from toolmend._histories.pieces import read_pieces
from toolmend._histories.source import open_source
from toolmend.cli.failures import FAILED, fail
from toolmend.cli.history_explain import explained
from toolmend.cli.history_options import FormatOption, check_format
from toolmend.cli.history_screen import Screen, place, standard_output
from toolmend.cli.history_words import Tally, finding_line, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend._histories.judged import Judged
    from toolmend.mending.policy import Policy


def check(
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="JSON or JSON lines; - is stdin.")
    ],
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Call by call, and what a provider would answer."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per history, each on one line.")
    ] = False,
    format: FormatOption = None,
    policy: Any,
) -> None:
    """Tell what is wrong with stored histories: JSON, JSON lines or request bodies.

    Shows ids and names, no content. Exit codes: 0 all are legal, 1 one is broken or cannot be read.
    """
    if explain and as_json:
        fail("--explain is for people and --json for programs; use one of them")
    check_format(format)
    tally = Tally()
    with standard_output(), Screen(files, writes_stdout=True) as screen:
        for file in files:
            for found in _looks(file, policy, format, screen):
                tally.add(found)
                if found.trouble is not None:
                    screen.say(f"{place(file, found.line)}: {found.trouble}")
                if as_json:
                    print(json.dumps(record(file, found)))
                else:
                    for line in _lines(place(file, found.line), found, explain=explain):
                        print(line)
        screen.close()
        if not as_json:
            print(tally.line("broken", "not read"))
    if tally.broken or tally.unreadable:
        raise SystemExit(FAILED)


def _looks(file: str, policy: Policy, format: str | None, screen: Screen) -> Iterator[Look]:
    try:
        with open_source(file) as source:
            for piece in read_pieces(source.stream, screen.advance):
                found = look(piece, policy, format)
                if found is not None:
                    yield found
    except StoredHistoryError as error:
        yield Look(line=None, trouble=str(error))


def _lines(where: str, found: Look, *, explain: bool) -> Iterator[str]:
    judged = found.judged
    if judged is None:
        return
    if explain:
        verdict = "legal" if judged.is_legal else "broken"
        yield f"{where}: {verdict} ({_shape(judged)})"
        yield from explained(judged)
        return
    for finding in judged.findings:
        left = " (left as it is)" if finding.action == "left" else ""
        yield f"{where}: {finding_line(finding)}{left}"
    if judged.is_legal:
        yield f"{where}: legal ({_shape(judged)})"


def _shape(judged: Judged) -> str:
    count = len(judged.messages)
    if not count:
        return "no list of messages"
    return f"{judged.format}, {count} message{'s' if count > 1 else ''}"
