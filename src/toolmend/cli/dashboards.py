"""`toolmend dashboards`: write the boards and rules out, and ask a live Prometheus what they ask."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console

from toolmend._boards.answers import VARIABLES, ask
from toolmend._boards.files import export as write_files
from toolmend._boards.prometheus import Prometheus
from toolmend._boards.reading import read_boards
from toolmend.cli.dashboards_table import answers_table, summary
from toolmend.cli.failures import FAILED, fail

dashboards = typer.Typer(
    name="dashboards", help="Grafana boards and Prometheus rules.", no_args_is_help=True
)

_DURATION: Final = re.compile(r"(\d+(ms|[smhdwy]))+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LOCAL: Final = "http://127.0.0.1:9090"


@dashboards.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if missing.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that differ.", show_default=False)
    ] = False,
) -> None:
    """Write the boards, the alert and recording rules and the runbook into DIR."""
    if folder.exists() and not folder.is_dir():
        fail(f"{folder} is not a folder")
    written = write_files(folder, overwrite=force)
    for path, is_new in written.items():
        print(f"{'wrote' if is_new else 'same '} {path}")
    print(f"Next: import the boards into Grafana, see {folder / 'TOOLMEND.md'}")


@dashboards.command()
def check(
    url: Annotated[str, typer.Argument(help="A Prometheus, or what speaks its API.")] = _LOCAL,
    job: Annotated[
        str, typer.Option(metavar="REGEX", help="Which services, by the label job.")
    ] = VARIABLES["job"],
    window: Annotated[
        str, typer.Option("--range", metavar="DURATION", help="The time shown, as 30m or 2d.")
    ] = VARIABLES["__range"],
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: VALUE'", help="Sent along, as for Authorization; repeatable."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show the queries unabridged.", show_default=False)
    ] = False,
) -> None:
    """Ask a live Prometheus everything that the boards ask, and show the answers panel by panel."""
    _check_address(url)
    if not _DURATION.fullmatch(window):
        fail(f"--range takes a duration such as 30m or 2d, not {window!r}")
    prometheus = Prometheus(url, headers=_headers(header or []))
    # It stands between quotes in the queries.
    quoted = job.replace("\\", "\\\\").replace('"', '\\"')
    variables = {**VARIABLES, "job": quoted, "__range": window}
    console = Console()
    answers = []
    for board in read_boards():
        found = list(ask(prometheus, board, variables))
        answers += found
        console.print(answers_table(board, found, full=full))
    console.print(summary(answers))
    if any(answer.refusal for answer in answers):
        raise SystemExit(FAILED)


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        is_address = is_address and parts.port != 0 and not re.search(r"[\s\x00-\x1f]", url)
    except ValueError:
        is_address = False
    if not is_address:
        fail(f"the address of a Prometheus looks like {_LOCAL}, not {url!r}")
    if parts.username is not None:
        fail(
            "the address holds a name and password; send --header 'Authorization: Basic …' instead"
        )


def _headers(lines: list[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or re.search(r"[\r\n\0]", value):
            fail("--header takes 'NAME: VALUE' on one line")  # its value may be a secret
        headers[name.strip()] = value.strip()
    return headers
