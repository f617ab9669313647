"""Write a list of messages back into its text: what did not change keeps its very text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.json_style import JsonStyle, style_of
from toolmend._histories.numbers import WrittenFloat, WrittenInt, is_out_of_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolmend._histories.json_text import JsonText


def with_messages(json_text: JsonText, messages: Sequence[object], mended: Sequence[object]) -> str:
    """Return the text with other messages in the place of a list that is part of it.

    Objects and lists that come from the text are written as they stand there; everything else is
    spelt as the list is, with the keys in their order.

    Raises:
        StoredHistoryError: something in them cannot be written as JSON.
    """
    span = json_text.span_of(messages)
    assert span is not None
    style = style_of(json_text, messages)
    writer = _Writer(json_text, style)
    items = style.gap.join(writer.write(message, style.newline) for message in mended)
    written = f"[{style.lead}{items}{style.tail}]" if mended else "[]"
    return json_text.text[: span[0]] + written + json_text.text[span[1] :]


class _Writer:
    def __init__(self, json_text: JsonText, style: JsonStyle) -> None:
        self._json_text = json_text
        self._style = style

    def write(self, value: object, newline: str | None) -> str:
        """Return the text of a value; ``newline`` begins a line at its level, None keeps it on one."""
        known = self._json_text.text_of(value)
        if known is not None:
            return known
        inner = None if newline is None else newline + self._style.unit
        if isinstance(value, dict):
            members = (
                f"{self._text(str(name))}{self._style.colon}{self.write(member, inner)}"
                for name, member in value.items()
            )
            return "{" + self._joined(members, newline, inner) + "}"
        if isinstance(value, list | tuple):
            entries = (self.write(entry, inner) for entry in value)
            return "[" + self._joined(entries, newline, inner) + "]"
        return self._scalar(value)

    def _joined(self, parts: Iterable[str], newline: str | None, inner: str | None) -> str:
        if inner is None or newline is None:
            return self._style.comma.join(parts)
        joined = ("," + inner).join(parts)
        return f"{inner}{joined}{newline}" if joined else ""

    def _scalar(self, value: object) -> str:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, WrittenInt | WrittenFloat):
            return value.text
        if is_out_of_range(value):
            raise StoredHistoryError(
                "arguments hold a number that is too big to be rewritten; make it a string"
            )
        if value is None or isinstance(value, bool | int | float):
            return json.dumps(value)
        raise StoredHistoryError(
            f"what belongs in has no JSON form ({type(value).__name__}); leave --format out"
        )

    def _text(self, value: str) -> str:
        # Halves of surrogate pairs exist in JSON as escapes alone.
        is_whole = value.isascii() or not any(
            "\ud800" <= character <= "\udfff" for character in value
        )
        return json.dumps(value, ensure_ascii=self._style.is_ascii or not is_whole)
