"""Pieces of a file: one JSON text, or one per line; decided by the content, not by the name."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, BinaryIO, Final

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.json_text import read_fast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BOM: Final = codecs.BOM_UTF8
_BLANKS: Final = b" \t\r\n"
_MOST_LINES: Final = 20
"""So many lines are looked at to tell a spread text from lines of which the first is broken."""
_CHUNK: Final = 1 << 20
_FOREIGN: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_PACKED: Final = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"))
_HEAD: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One part of a file; the parts in their order are the whole file.

    Attributes:
        line: number of its first line, from 1.
        head: bytes in front of the text: a byte order mark.
        body: the text; empty where there is none to look at.
        tail: bytes behind the text: the line ending.
        trouble: why the file cannot be read from here on, None where it can.
    """

    line: int
    head: bytes = b""
    body: bytes = b""
    tail: bytes = b""
    trouble: str | None = None

    @property
    def raw(self) -> bytes:
        """The bytes as they stand in the file."""
        return self.head + self.body + self.tail if self.head or self.tail else self.body

    @property
    def text(self) -> str:
        """The text.

        Raises:
            StoredHistoryError: it is not UTF-8, or the file cannot be read from here on.
        """
        if self.trouble is not None:
            raise StoredHistoryError(self.trouble)
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            line = self.body.count(b"\n", 0, error.start) + 1
            column = error.start - self.body.rfind(b"\n", 0, error.start)
            raise StoredHistoryError(
                f"not UTF-8: 0x{self.body[error.start]:02x} is byte {column} of the line; "
                "convert it, as iconv -t UTF-8 does",
                line=line,
            ) from None


def read_pieces(stream: BinaryIO, progress: Callable[[int], None] | None = None) -> Iterator[Piece]:
    """Yield the parts of a file, in memory that is bounded by the longest line where it has lines.

    A file whose first line is a JSON text of its own is read line by line. So is one whose first
    line is broken, when lines that are JSON objects or lists follow each other. Any other file is
    one text.

    Args:
        stream: the file.
        progress: called with the number of bytes that were read.
    """
    lines = _lines(stream, progress)
    first: list[bytes] = []
    for line in lines:
        first.append(line)
        if line.strip(_BLANKS + _BOM):
            break
    else:
        yield Piece(line=1, tail=b"".join(first), trouble="empty; there is no history in it")
        return
    trouble = _trouble(first[0])
    if trouble is not None:
        yield Piece(line=1, tail=b"".join(first), trouble=trouble)
        for line in lines:
            yield Piece(line=1, tail=line)
        return
    if not _is_json(first[-1]):
        ahead = _look_ahead(lines)
        is_one_text = not _are_lines(ahead)
        if is_one_text:
            yield from _one_text(first, [*ahead, *lines])
            return
        lines = chain(ahead, lines)
    queue = deque(first)
    del first
    number = 0
    while queue:
        number += 1
        yield _piece(number, queue.popleft())
    for line in lines:
        number += 1
        yield _piece(number, line)


def _lines(stream: BinaryIO, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    unreported = 0
    while line := stream.readline():
        if progress is not None:
            unreported += len(line)
            if unreported >= _CHUNK:
                progress(unreported)
                unreported = 0
        yield line
    if progress is not None:
        progress(unreported)


def _look_ahead(lines: Iterator[bytes]) -> list[bytes]:
    ahead: list[bytes] = []
    for line in lines:
        ahead.append(line)
        if len(ahead) == _MOST_LINES:
            break
    return ahead


def _are_lines(ahead: list[bytes]) -> bool:
    """Tell whether these are lines, each a text of its own: a comma stands between parts of one text."""
    is_whole = [_is_container(line) for line in ahead if line.strip(_BLANKS)]
    if len(ahead) < _MOST_LINES and len(is_whole) == 1:
        return is_whole[0]
    return any(one and other for one, other in pairwise(is_whole))


def _is_container(line: bytes) -> bool:
    return line.lstrip(_BLANKS)[:1] in (b"{", b"[") and _is_json(line)


def _is_json(line: bytes) -> bool:
    """Tell whether a line is one JSON text; one that is no UTF-8 counts when that is its only fault."""
    try:
        read_fast(line.removeprefix(_BOM).decode(errors="replace"))
    except StoredHistoryError as error:
        return error.line is None  # nested too deep
    except ValueError:  # a number with too many digits
        return True
    return True


def _one_text(first: list[bytes], rest: list[bytes]) -> Iterator[Piece]:
    blank = first[:-1]
    if blank:
        yield Piece(line=1, tail=b"".join(blank))
    data = first[-1] + b"".join(rest)
    rest.clear()
    yield _piece(len(first), data)


def _piece(number: int, data: bytes) -> Piece:
    head = b""
    if data.startswith(_BOM):
        head, data = _BOM, data[len(_BOM) :]
    body = data.rstrip(_BLANKS)
    if not body:
        return Piece(line=number, head=head, tail=data)
    if len(body) == len(data):
        return Piece(line=number, head=head, body=data)
    return Piece(line=number, head=head, body=body, tail=data[len(body) :])


def _trouble(line: bytes) -> str | None:
    """Return why a file that begins like this cannot be read, None when it can."""
    for mark, name in _FOREIGN:
        if line.startswith(mark):
            return f"{name}, not UTF-8; convert it, as iconv -f {name} -t UTF-8 does"
    for mark, name in _PACKED:
        if line.startswith(mark):
            return f"packed with {name}; unpack it first"
    if b"\0" in line[:_HEAD]:
        name = "UTF-32" if line[:_HEAD].count(b"\0") > 2 else "UTF-16"  # noqa: PLR2004 - of 4 bytes
        return f"no text, or {name} without a mark; convert it to UTF-8"
    return None
