"""JSON texts: the value, and the very text of each object and list in it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.numbers import WrittenFloat, is_out_of_range, read_float, read_int

_LEVELS: Final = 9
"""How deep texts are known: a body in a wrapper, its list, a message, and what a message is made of."""
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


def read_fast(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        StoredHistoryError: it is no JSON, or nested too deep.
        ValueError: a number has more digits than Python converts; ``JsonText`` reads it.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _invalid(error) from None
    except RecursionError:
        raise _too_deep() from None


class JsonText:
    """A JSON text that was read with care: its value, and where each part of it stands.

    Numbers that Python would write in another way know their text.

    Attributes:
        text: the text.
        value: what it says.
        is_out_of_range: whether a number in it is none that Python has.

    Raises:
        StoredHistoryError: the text is no JSON, or nested too deep.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_out_of_range = False
        self._spans: dict[int, tuple[int, int]] = {}
        # Values that a key given twice replaced stay alive, so that no other gets their identity.
        self._alive: list[object] = []
        decoder: Any = json.JSONDecoder(
            parse_int=self._int, parse_float=self._float, parse_constant=self._constant
        )
        self._scan = decoder.scan_once
        self._scan_text = decoder.parse_string
        try:
            self.value = self._read_all()
        except json.JSONDecodeError as error:
            raise _invalid(error) from None
        except RecursionError:
            raise _too_deep() from None

    def span_of(self, part: object) -> tuple[int, int] | None:
        """Return where an object or list of this value stands in the text; None for any other value."""
        return self._spans.get(id(part))

    def text_of(self, part: object) -> str | None:
        """Return the very text of an object or list of this value; None for any other value."""
        span = self._spans.get(id(part))
        return None if span is None else self.text[span[0] : span[1]]

    def _int(self, digits: str) -> int:
        number = read_int(digits)
        self._watch(number)
        return number

    def _float(self, digits: str) -> float:
        number = read_float(digits)
        self._watch(number)
        return number

    def _constant(self, name: str) -> float:
        self.is_out_of_range = True
        return WrittenFloat(name)

    def _watch(self, number: float) -> None:
        self.is_out_of_range = self.is_out_of_range or is_out_of_range(number)

    def _read_all(self) -> Any:
        value, end = self._read(self._skip(0), _LEVELS)
        end = self._skip(end)
        if end != len(self.text):
            raise json.JSONDecodeError("Extra data", self.text, end)
        return value

    def _skip(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found is not None else at

    def _read(self, at: int, levels: int) -> tuple[Any, int]:
        opening = self.text[at : at + 1]
        if levels and opening == "{":
            value, end = self._read_object(at, levels)
        elif levels and opening == "[":
            value, end = self._read_list(at, levels)
        else:
            try:
                value, end = self._scan(self.text, at)
            except StopIteration as stop:
                raise json.JSONDecodeError("Expecting value", self.text, stop.value) from None
        if isinstance(value, dict | list):
            self._spans[id(value)] = (at, end)
            self._alive.append(value)
        return value, end

    def _read_object(self, at: int, levels: int) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        at = self._skip(at + 1)
        if self.text[at : at + 1] == "}":
            return members, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise json.JSONDecodeError(
                    "Expecting property name enclosed in double quotes", self.text, at
                )
            name, at = self._scan_text(self.text, at + 1, True)
            at = self._skip(at)
            if self.text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", self.text, at)
            members[name], at = self._read(self._skip(at + 1), levels - 1)
            at, is_last = self._after(at, "}")
            if is_last:
                return members, at

    def _read_list(self, at: int, levels: int) -> tuple[Any, int]:
        items: list[Any] = []
        at = self._skip(at + 1)
        if self.text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, at = self._read(at, levels - 1)
            items.append(item)
            at, is_last = self._after(at, "]")
            if is_last:
                return items, at

    def _after(self, at: int, closing: str) -> tuple[int, bool]:
        """Return where to read on behind a member, and whether it was the last."""
        at = self._skip(at)
        found = self.text[at : at + 1]
        if found == closing:
            return at + 1, True
        if found != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", self.text, at)
        return self._skip(at + 1), False


def _invalid(error: json.JSONDecodeError) -> StoredHistoryError:
    return StoredHistoryError(
        f"invalid JSON at column {error.colno}: {error.msg}; correct it or take it out",
        line=error.lineno,
    )


def _too_deep() -> StoredHistoryError:
    return StoredHistoryError("JSON that is nested too deep to be read; flatten it or take it out")
