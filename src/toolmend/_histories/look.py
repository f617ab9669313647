"""A look at one piece of a file, which never fails: what cannot be read is part of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.judged import Judged, judge, verify
from toolmend.errors import PolicyError

if TYPE_CHECKING:
    from toolmend._histories.pieces import Piece
    from toolmend.mending.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found in a piece of a file.

    Attributes:
        line: the line in the file that this is about, None for the file as a whole.
        judged: the history, None where none could be read.
        trouble: why it could not be read or mended, and what to do; None where it could.
    """

    line: int | None
    judged: Judged | None = None
    trouble: str | None = None


def look(piece: Piece, policy: Policy, format: str | None = None) -> Look | None:
    """Look at the history in a piece of a file; None where there is nothing in it.

    Raises:
        PolicyError: the policy cannot work.
    """
    if not piece.body and piece.trouble is None:
        return None
    try:
        return Look(line=piece.line, judged=judge(piece.text, policy, format))
    except PolicyError:
        raise
    except Exception as error:  # noqa: BLE001 - one line must not stop the others
        return Look(line=_line(piece, error), trouble=_trouble(error))


def mend(piece: Piece, found: Look, policy: Policy) -> tuple[Look, bytes]:
    """Return a piece of a file with its history mended, and the look at it with what went wrong then.

    A piece that needs nothing, or that could not be handled, comes back byte for byte.

    Raises:
        PolicyError: the policy cannot work.
    """
    if found.judged is None:
        return found, piece.raw
    try:
        text = found.judged.mended_text()
        if text is None:
            return found, piece.raw
        verify(text, policy, found.judged.format)
        mended = piece.head + text.encode() + piece.tail
    except PolicyError:
        raise
    except Exception as error:  # noqa: BLE001 - one line must not stop the others
        return Look(line=_line(piece, error), trouble=_trouble(error)), piece.raw
    return found, mended


def _line(piece: Piece, error: Exception) -> int | None:
    if piece.trouble is not None:
        return None
    inner = error.line if isinstance(error, StoredHistoryError) else None
    return piece.line + (inner or 1) - 1


def _trouble(error: Exception) -> str:
    if isinstance(error, StoredHistoryError):
        return str(error)
    if isinstance(error, RecursionError):
        return "nested too deep to be mended; flatten it or take it out"
    # The text of any other error could show content.
    return f"toolmend failed at this ({type(error).__name__}); please report it"
