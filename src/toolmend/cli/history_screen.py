"""What both commands show beside their result: one line per failure, and a bar while it takes long."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from typing_extensions import Self

from toolmend._histories.source import name_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

_PATIENCE_SECONDS: Final = 1.0
_LONGEST: Final = 200
_CLOSED_PIPE: Final = 141


class Screen:
    """Standard error of a command that reads files; a context manager.

    Args:
        files: the files that will be read.
        writes_stdout: whether results go to standard output meanwhile. On a terminal there is no bar then.
    """

    def __init__(self, files: Sequence[str], *, writes_stdout: bool) -> None:
        sizes = [size_of(file) for file in files]
        known = [size for size in sizes if size is not None]
        self._total = sum(known) if len(known) == len(sizes) else None
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._is_bar_wanted = (
            sys.stderr.isatty()
            and self._console.is_terminal
            and not self._console.is_dumb_terminal
            and not (writes_stdout and sys.stdout.isatty())
        )
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def advance(self, amount: int) -> None:
        """Take note that so many more bytes were read."""
        self._read += amount
        if not self._is_bar_wanted:
            return
        if self._progress is None:
            if time.monotonic() - self._began < _PATIENCE_SECONDS:
                return
            self._progress = _progress(self._console)
            self._task = self._progress.add_task("", total=self._total)
            self._progress.start()
        assert self._task is not None
        self._progress.update(self._task, completed=self._read)

    def say(self, text: str) -> None:
        """Show a line."""
        line = f"toolmend: {text}"
        if self._progress is not None:
            self._console.print(line, soft_wrap=True)
        else:
            print(line, file=sys.stderr)


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def place(file: str, line: int | None = None) -> str:
    """Return how a file, or a line of it, is called in what is shown."""
    name = printable(name_of(file))
    return name if line is None else f"{name}:{line}"


def printable(text: str, *, longest: int = _LONGEST) -> str:
    """Return a text that fits on one line and moves nothing on a terminal."""
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in short
    )


@contextmanager
def standard_output() -> Iterator[None]:
    """Let a reader that closes the pipe end the command quietly.

    Raises:
        SystemExit: it did.
    """
    stream: Any = sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter would complain when it flushes for the last time.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        raise SystemExit(_CLOSED_PIPE) from None
