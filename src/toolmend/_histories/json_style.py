"""How a JSON text spells lists and objects, so that what is new in it looks like the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend._histories.json_text import JsonText

_LEAD: Final = re.compile(r"\[([ \t\n\r]*)")
_TAIL: Final = re.compile(r"[ \t\n\r]*\]\Z")
_COLON: Final = re.compile(r'\{[ \t\n\r]*"(?:[^"\\]|\\.)*"([ \t]*:[ \t]*)')
_COMMA: Final = re.compile(r'"[ \t]*,([ \t]*)"')
_SPREAD: Final = re.compile(r"\{[ \t]*\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """The spelling of one list of messages.

    Attributes:
        lead: blanks in front of the first message.
        gap: what stands between two messages.
        tail: blanks behind the last message.
        colon: what stands between a name and its value.
        comma: what stands between two members on one line.
        newline: how a line of a spread message begins, without what it is indented by more than the
            message; None where messages stand on one line.
        unit: what each level is indented by.
        is_ascii: whether other characters are escaped.
    """

    lead: str
    gap: str
    tail: str
    colon: str
    comma: str
    newline: str | None
    unit: str
    is_ascii: bool


def style_of(json_text: JsonText, messages: Sequence[object]) -> JsonStyle:
    """Return the spelling of a list of messages, which is part of a text and not empty."""
    span = json_text.span_of(messages)
    assert span is not None
    text = json_text.text
    lead_match = _LEAD.match(text, span[0])
    # The tail is found in the last bytes alone: lists can be long.
    tail_match = _TAIL.search(text[max(span[0], span[1] - 200) : span[1]])
    lead = lead_match[1] if lead_match else ""
    tail = tail_match[0][:-1] if tail_match else ""
    first = next(filter(None, map(json_text.text_of, messages)), "")
    colon_match = _COLON.match(first)
    colon = colon_match[1] if colon_match else ": "
    comma_match = _COMMA.search(first)
    space = comma_match[1] if comma_match else " " if colon.endswith(" ") else ""
    indent = lead.rpartition("\n")[2]
    outer = tail.rpartition("\n")[2]
    unit = indent[len(outer) :] if indent.startswith(outer) else ""
    return JsonStyle(
        lead=lead,
        gap=_gap(json_text, messages) or ("," + (lead if "\n" in lead else space)),
        tail=tail,
        colon=colon,
        comma="," + space,
        newline=lead if "\n" in lead and _SPREAD.match(first) else None,
        unit=unit or "  ",
        is_ascii=text.isascii() and "\\u" in text,
    )


def _gap(json_text: JsonText, messages: Sequence[object]) -> str | None:
    if len(messages) < 2:  # noqa: PLR2004 - a gap needs two
        return None
    before, behind = json_text.span_of(messages[0]), json_text.span_of(messages[1])
    if before is None or behind is None:
        return None
    return json_text.text[before[1] : behind[0]]
