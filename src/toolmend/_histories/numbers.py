"""Numbers that know how they were written, where Python would write them otherwise."""

from __future__ import annotations

import math
from typing import Final

from typing_extensions import Self

_MOST_DIGITS: Final = 4300
"""Python refuses to convert longer integers."""


class WrittenInt(int):
    """An integer and its text, such as ``-0``; equal to another one with the same text.

    Its value is 0 where Python refuses to convert the text; then it equals no other number.
    """

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, int(text) if len(text) <= _MOST_DIGITS else 0)
        made.text = text
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WrittenInt):
            return self.text == other.text
        return len(self.text) <= _MOST_DIGITS and int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


class WrittenFloat(float):
    """A float and its text, such as ``1.10`` or ``1e400``; equal to another one with the same text."""

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WrittenFloat):
            return self.text == other.text
        return float(self) == other

    def __hash__(self) -> int:
        return hash(float(self))


def read_int(text: str) -> int:
    """Return the integer of a JSON text."""
    if len(text) > _MOST_DIGITS or text == "-0":
        return WrittenInt(text)
    return int(text)


def read_float(text: str) -> float:
    """Return the float of a JSON text."""
    value = float(text)
    return value if repr(value) == text else WrittenFloat(text)


def is_out_of_range(value: object) -> bool:
    """Tell whether Python has no number for what was written: it is too big, or no number."""
    if isinstance(value, WrittenInt):
        return len(value.text) > _MOST_DIGITS
    return isinstance(value, float) and not math.isfinite(value)
