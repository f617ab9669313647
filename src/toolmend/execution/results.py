"""Results: what a tool returned, as text for the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from pydantic_core import to_json

from toolmend.execution.texts import NO_OUTPUT

MAX_CHARS: Final = 1_000_000
"""Beyond this a result is cut: no provider takes it, and the whole conversation would be lost."""

_MAX_ITEMS: Final = 100_000
"""Of something that may never end."""


def text_of_result(value: object, max_chars: int = MAX_CHARS) -> str:
    """Return a result as text: texts as they are, everything else as JSON where it can be.

    Args:
        value: what the tool returned; None becomes a short sentence.
        max_chars: a longer text is cut, with a mark that says so.
    """
    if value is None:
        return NO_OUTPUT
    # Of a text that is more, such as a member of an enum, the plain text.
    text = str.__str__(value) if isinstance(value, str) else _written(value)
    if len(text) > max_chars:
        text = f"{text[:max_chars]}\n(cut: {len(text)} characters in all)"
    # A lone surrogate cannot be sent.
    return text.encode("utf-8", "replace").decode("utf-8")


def _written(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return f"({len(raw)} bytes of binary data)"
    try:
        if isinstance(value, Iterator):
            value = list(islice(value, _MAX_ITEMS))
        return to_json(
            value, fallback=_shown, serialize_unknown=True, inf_nan_mode="constants"
        ).decode("utf-8")
    except Exception:  # noqa: BLE001 - a tool's value may do anything, such as containing itself
        return _shown(value)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the same
        return f"({type(value).__name__})"
