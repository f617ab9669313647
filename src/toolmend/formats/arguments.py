"""Arguments: scanned for being a JSON object, never converted to decide that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolmend.mending.transcript import ArgumentsState

_scan: Final = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # missing in the stubs
_BLANKS: Final = re.compile(r"[ \t\n\r]*").match


def is_json_object(text: str) -> bool:
    """Tell whether a text is one JSON object; what cannot be scanned to its end counts as fine.

    The scanner refuses integers of more than 4,300 digits and very deep nesting. Neither says
    anything about the provider, and an answer of no would throw legal arguments away.
    """
    if text == "{}":
        return True
    start = _blanks_from(text, 0)
    if not text.startswith("{", start):
        return False
    try:
        _, end = _scan(text, start)
    except (json.JSONDecodeError, StopIteration):
        return False
    except (ValueError, RecursionError):
        return True
    return _blanks_from(text, end) == len(text)


def _blanks_from(text: str, start: int) -> int:
    found = _BLANKS(text, start)
    return found.end() if found is not None else start


def text_state(arguments: object) -> ArgumentsState:
    """Return the state of arguments that have to be a JSON object in a string.

    An object that cannot be written as JSON counts as fine: an empty one in its place would lose it.
    """
    if isinstance(arguments, str):
        return "fine" if is_json_object(arguments) else "unreadable"
    if not isinstance(arguments, Mapping):
        return "unreadable"
    return "fine" if _written(arguments) is None else "wrong_type"


def object_state(arguments: object) -> ArgumentsState:
    """Return the state of arguments that have to be an object.

    A text that holds an object, but cannot be read, counts as fine: an empty one would lose it.
    """
    if isinstance(arguments, Mapping):
        return "fine"
    if not isinstance(arguments, str) or not is_json_object(arguments):
        return "unreadable"
    return "fine" if _read(arguments) is None else "wrong_type"


def as_text(arguments: object) -> str:
    """Return arguments as a JSON object in a string; what is unreadable becomes an empty one."""
    return (_written(arguments) if isinstance(arguments, Mapping) else None) or "{}"


def as_object(arguments: object) -> Mapping[str, object]:
    """Return arguments as an object; what is unreadable becomes an empty one."""
    return (_read(arguments) if isinstance(arguments, str) else None) or {}


def _written(arguments: Mapping[str, object]) -> str | None:
    try:
        return json.dumps(dict(arguments), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None


def _read(arguments: str) -> Mapping[str, object] | None:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
