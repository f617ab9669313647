"""`toolmend repair`: stored histories, mended and written back as they were."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.look import Look, look, mend
from toolmend._histories.pieces import read_pieces
from toolmend._histories.replacement import Replacement
from toolmend._histories.source import STDIN, open_source
from toolmend.cli.failures import FAILED, fail
from toolmend.cli.history_options import FormatOption, check_format
from toolmend.cli.history_screen import Screen, place, standard_output
from toolmend.cli.history_words import Tally, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from toolmend.mending.policy import Policy


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


def repair(
    *,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="JSON or JSON lines; - is stdin.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", "-i", help="Replace each file by its mended version.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Write one JSON object per history there, as check."
        ),
    ] = None,
    format: FormatOption = None,
    policy: Any,
) -> None:
    """Write stored histories back so that their providers accept them.

    What needs nothing stays byte for byte as it is. Exit codes: 0 all that was written is legal,
    1 something could not be handled and was passed on as it was.
    """
    check_format(format)
    _check_targets(files, output, report, in_place=in_place)
    writes_stdout = output is None and not in_place
    with standard_output(), ExitStack() as stack:
        screen = stack.enter_context(Screen(files, writes_stdout=writes_stdout))
        notes = None if report is None else stack.enter_context(report.open("w", encoding="utf-8"))
        run = _Run(policy, format, screen, notes)
        if in_place:
            for file in files:
                run.mend_in_place(file)
        elif output is None:
            run.mend_into(files, sys.stdout.buffer)
        else:
            with _opened(output) as sink:
                run.mend_into(files, sink)
        screen.close()
        screen.say(run.tally.line("mended", "passed on as they were"))
    if run.tally.unreadable:
        raise SystemExit(FAILED)


def _check_targets(
    files: list[str], output: Path | None, report: Path | None, *, in_place: bool
) -> None:
    if in_place and output is not None:
        fail("--in-place and --output exclude each other; use one of them")
    if in_place and STDIN in files:
        fail("--in-place needs files; stdin has no place to write to")
    for option, target in (("--output", output), ("--report", report)):
        if target is None:
            continue
        if any(_is_same(target, Path(file)) for file in files if file != STDIN):
            fail(f"{option} names an input; use --in-place to replace inputs")
        if target.is_dir():
            fail(f"{option} names a folder; name a file")
        if not target.parent.is_dir():
            fail(f"{option} names a file in a folder that is not there; make the folder first")
    if output is not None and report is not None and (output == report or _is_same(output, report)):
        fail("--output and --report name one file; use two")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


@contextmanager
def _opened(output: Path) -> Iterator[_Sink]:
    """Open a file that is written whole or not at all; devices and pipes are written as they come."""
    if output.exists() and not output.is_file():
        with output.open("wb") as stream:
            yield stream
        return
    with Replacement(output) as replacement:
        yield replacement
        replacement.commit()


class _Run:
    """One run over some files.

    Attributes:
        tally: how many histories were what.
    """

    def __init__(
        self, policy: Policy, format: str | None, screen: Screen, notes: TextIO | None
    ) -> None:
        self._policy = policy
        self._format = format
        self._screen = screen
        self._notes = notes
        self.tally = Tally()

    def mend_into(self, files: list[str], sink: _Sink) -> None:
        """Write several files one after the other."""
        is_line_open = False
        for file in files:
            is_begun = False
            for data, _ in self._mended(file):
                if not is_begun and is_line_open and data:
                    sink.write(b"\n")
                is_begun = is_begun or bool(data)
                is_line_open = not data.endswith(b"\n") if data else is_line_open
                sink.write(data)

    def mend_in_place(self, file: str) -> None:
        """Replace a file by its mended version, if anything in it has to change."""
        is_changed = False
        if Path(file).exists() and not Path(file).is_file():
            self._note(file, Look(line=None, trouble="no regular file; --in-place replaces files"))
            return
        try:
            with Replacement(Path(file)) as replacement:
                for data, is_other in self._mended(file):
                    is_changed = is_changed or is_other
                    replacement.write(data)
                if is_changed:
                    replacement.commit()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self._note(file, Look(line=None, trouble=f"cannot be replaced ({reason}); check it"))

    def _mended(self, file: str) -> Iterator[tuple[bytes, bool]]:
        """Yield the parts of a file, and whether each differs from what it was."""
        try:
            with open_source(file) as source:
                for piece in read_pieces(source.stream, self._screen.advance):
                    found = look(piece, self._policy, self._format)
                    if found is None:
                        yield piece.raw, False
                        continue
                    found, data = mend(piece, found, self._policy)
                    self._note(file, found)
                    yield data, data != piece.raw
        except StoredHistoryError as error:
            self._note(file, Look(line=None, trouble=str(error)))

    def _note(self, file: str, found: Look) -> None:
        self.tally.add(found)
        if found.trouble is not None:
            self._screen.say(f"{place(file, found.line)}: {found.trouble}")
        if self._notes is not None:
            self._notes.write(json.dumps(record(file, found)) + "\n")
