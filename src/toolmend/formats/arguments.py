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
    """Return the state of arguments that have to be a JSON object in a string."""
    if isinstance(arguments, str):
        return "fine" if is_json_object(arguments) else "unreadable"
    return "wrong_type" if isinstance(arguments, Mapping) else "unreadable"


def object_state(arguments: object) -> ArgumentsState:
    """Return the state of arguments that have to be an object."""
    if isinstance(arguments, Mapping):
        return "fine"
    is_object_text = isinstance(arguments, str) and is_json_object(arguments)
    return "wrong_type" if is_object_text else "unreadable"


def as_text(arguments: object) -> str:
    """Return arguments as a JSON object in a string; what is unreadable becomes an empty one."""
    if isinstance(arguments, Mapping):
        try:
            return json.dumps(dict(arguments), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return "{}"
    return "{}"


def as_object(arguments: object) -> Mapping[str, object]:
    """Return arguments as an object; what is unreadable becomes an empty one."""
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}
    return {}
