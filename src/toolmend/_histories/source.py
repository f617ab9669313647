"""Sources: a file or standard input, opened to be read."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

from toolmend._histories.failure import StoredHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

STDIN: Final = "-"
_BUFFER: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An open file.

    Attributes:
        name: how errors call it.
        stream: its bytes.
    """

    name: str
    stream: BinaryIO


def name_of(file: str) -> str:
    """Return how errors call a file."""
    return "<stdin>" if file == STDIN else file


def size_of(file: str) -> int | None:
    """Return the number of bytes in a file, None where nobody knows."""
    try:
        state = os.fstat(0) if file == STDIN else Path(file).stat()
    except (OSError, ValueError):
        return None
    return state.st_size if stat.S_ISREG(state.st_mode) else None


@contextmanager
def open_source(file: str) -> Iterator[Source]:
    """Open a file, ``-`` for standard input.

    Raises:
        StoredHistoryError: there is no such file, it is a folder, or it may not be read.
    """
    if file == STDIN:
        stdin: TextIO | None = sys.stdin
        if stdin is None:
            raise StoredHistoryError("closed; name a file")
        yield Source(name=name_of(file), stream=stdin.buffer)
        return
    try:
        stream = Path(file).open("rb", buffering=_BUFFER)  # noqa: SIM115 - errors inside are not its
    except FileNotFoundError:
        raise StoredHistoryError("no such file; check the name") from None
    except IsADirectoryError:
        raise StoredHistoryError("a folder; name the files in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoredHistoryError(f"cannot be opened ({reason}); check it") from None
    with stream:
        yield Source(name=name_of(file), stream=stream)
