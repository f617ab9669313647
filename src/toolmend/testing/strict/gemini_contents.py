"""Contents and parts of a Gemini history, in either spelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict.plain import as_id, as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "thoughtSignature": "thought_signature",
}
# What a part may carry beside its data.
_NO_DATA = (
    "thought",
    "videoMetadata",
    "video_metadata",
    "partMetadata",
    "part_metadata",
    "mediaResolution",
    "media_resolution",
)
_USER_ROLES = (None, "user", "function", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part and its place.

    Attributes:
        position: Index in the parts of its content.
        fields: The part as a mapping; None when it is no object.
        call: Its function call; None when it has none that is an object.
        response: Its function response; the same.
    """

    position: int
    fields: Mapping[str, object] | None
    call: Mapping[str, object] | None
    response: Mapping[str, object] | None

    @property
    def is_signed(self) -> bool:
        """Whether the part carries a thought signature."""
        return bool(field_of(self.fields or {}, "thoughtSignature"))

    @property
    def is_text(self) -> bool:
        """Whether the part is a text."""
        return (self.fields or {}).get("text") is not None

    @property
    def is_without_data(self) -> bool:
        """Whether no data stand in the part."""
        fields = (self.fields or {}).items()
        return all(key in _NO_DATA for key, value in fields if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One content and its place; a content of an unknown role has no parts to judge.

    Attributes:
        index: Index in the list.
        is_of_model: Whether the model made it.
        is_known: Whether its role is one of those that Gemini has; a missing one means the user.
        parts: Its parts; None when they are no list.
        calls: The parts that call a function.
        responses: The parts that answer a call.
    """

    index: int
    is_of_model: bool
    is_known: bool
    parts: tuple[Part, ...] | None
    calls: tuple[Part, ...]
    responses: tuple[Part, ...]


def field_of(fields: Mapping[str, object], name: str) -> object:
    """Return a field under its camelCase or its snake_case name."""
    value = fields.get(name)
    return fields.get(_SNAKE[name]) if value is None else value


def id_of(call_or_response: Mapping[str, object]) -> str | None:
    """Return the id of a call or response; many have none."""
    return as_id(call_or_response.get("id"))


def name_of(call_or_response: Mapping[str, object]) -> str | None:
    """Return the function name of a call or response; None when it is missing."""
    return as_id(call_or_response.get("name"))


def read_contents(messages: Sequence[Mapping[str, object]]) -> list[Content]:
    """Return the contents of a history, in order."""
    contents: list[Content] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        is_known = role in _USER_ROLES or role == "model"
        items = as_items(message.get("parts")) if is_known else ()
        parts = None if items is None else tuple(map(_read_part, range(len(items)), items))
        contents.append(
            Content(
                index=index,
                is_of_model=role == "model",
                is_known=is_known,
                parts=parts,
                calls=tuple(part for part in parts or () if part.call is not None),
                responses=tuple(part for part in parts or () if part.response is not None),
            )
        )
    return contents


def _read_part(position: int, item: object) -> Part:
    fields = as_mapping(item)
    call = as_mapping(field_of(fields or {}, "functionCall"))
    response = as_mapping(field_of(fields or {}, "functionResponse"))
    return Part(position=position, fields=fields, call=call, response=response)
