"""The screen of a demo: lines on any output, and a board below them on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import Self, assert_never

from toolmend._demo.events import Event, Mended, PhaseBegan, PhaseEnded, Refused, TurnEnded
from toolmend.cli.demo_board import Board
from toolmend.cli.demo_closing import closing_sentences, closing_tables
from toolmend.cli.demo_lines import (
    heads_line,
    mended_line,
    opening_lines,
    phase_end_lines,
    phase_lines,
    play_lines,
    refused_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from rich.console import RenderableType

    from toolmend._demo.opening import Opening
    from toolmend._demo.report import Report


class Screen:
    """Shows a run; a context manager while there is a board."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        is_board_wanted = (
            sys.stdout.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        )
        is_unicode = self._console.encoding.lower().startswith("utf")
        self._board = Board(is_unicode=is_unicode)
        self._live = (
            Live(self._board, console=self._console, refresh_per_second=8, transient=True)
            if is_board_wanted
            else None
        )
        self._has_heads = False
        self.report: Callable[[], Report] | None = None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show_opening(self, opening: Opening) -> None:
        """Show what a broken history costs."""
        self._print(opening_lines(opening))

    def show_clients(self, clients: str) -> None:
        """Show who plays."""
        self._print(play_lines(clients))

    def show(self, event: Event) -> None:
        """Show what happened."""
        match event:
            case Mended():
                if not self._has_heads:
                    self._print([heads_line()])
                    self._has_heads = True
                self._print([mended_line(event)])
            case Refused():
                self._print([refused_line(event)])
            case PhaseBegan():
                self._board.begin_phase(event.phase.name)
                self._print(phase_lines(event.phase))
                self._has_heads = False
            case PhaseEnded():
                self._board.end_phase(event.row)
                self._print(phase_end_lines(event.row))
            case TurnEnded():
                self._board.end_turn(event)
            case _:
                assert_never(event)
        if self._live is not None and self.report is not None:
            self._board.report = self.report()

    def show_closing(self, report: Report) -> None:
        """Show what it all comes to."""
        self._print([Text(""), *closing_tables(report)])
        for sentence in closing_sentences(report):
            self._print([_bullet(sentence)])

    def say(self, text: str) -> None:
        """Show a line of text."""
        self._print([Text(text)])

    def _print(self, lines: Iterable[RenderableType]) -> None:
        for line in lines:
            if self._console.is_terminal:
                self._console.print(line)
                continue
            # What pads a line to the width of a terminal is noise in a file.
            with self._console.capture() as captured:
                self._console.print(line)
            for text in captured.get().splitlines():
                self._console.out(text.rstrip())


def _bullet(sentence: str) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("*", sentence)
    return grid
