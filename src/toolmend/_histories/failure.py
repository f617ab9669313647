"""The one error for what cannot be read or mended in a file."""

from __future__ import annotations

from toolmend.errors import ToolmendError


class StoredHistoryError(ToolmendError):
    """A file, or one line of it, that cannot be read or mended.

    The message says what is wrong and what to do, without any content.

    Attributes:
        line: line in the text that was handed in, from 1; None where no line is to blame.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (str(self), self.line)


def _rebuild(message: str, line: int | None) -> StoredHistoryError:
    return StoredHistoryError(message, line=line)
