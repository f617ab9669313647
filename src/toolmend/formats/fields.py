"""Fields: one way to read and copy messages that are dicts, SDK objects or dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from toolmend.errors import MalformedHistoryError


def get(item: object, name: str) -> Any:
    """Return a field of a mapping or an object, None when it is not there."""
    if type(item) is dict:  # the common case, and an ABC check is slow
        return item.get(name)
    if isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def kind_of(block: object) -> str | None:
    """Return the type of a block, None when that is no text."""
    kind = get(block, "type")
    return kind if isinstance(kind, str) else None


def replaced(item: object, updates: Mapping[str, object], drop: tuple[str, ...] = ()) -> object:
    """Return a copy of a message with some fields changed and some taken out; the rest is shared.

    A pydantic object gives a ``model_copy``, a dataclass a ``replace``, any mapping a dict, and any other
    object a shallow copy.
    """
    if isinstance(item, Mapping):
        return {**{key: value for key, value in item.items() if key not in drop}, **updates}
    gone = dict.fromkeys(drop)
    model_copy = getattr(item, "model_copy", None)
    if callable(model_copy):
        made = model_copy(update={**gone, **updates})
        # SDKs send the fields that were set: one that was taken out must not go out as null.
        made.__pydantic_fields_set__.difference_update(drop)
        return made
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return dataclasses.replace(item, **{**gone, **updates})
    changed = copy.copy(item)
    for name, value in {**gone, **updates}.items():
        setattr(changed, name, value)
    return changed


def malformed(format: str, index: int, what: str, cure: str) -> MalformedHistoryError:
    """Return the error for a message that no format can read."""
    return MalformedHistoryError(f"messages[{index}] {what}; {cure}", format=format, index=index)


def role_in(message: object, index: int, format: str) -> str:
    """Return the role of a message.

    Raises:
        MalformedHistoryError: it has none.
    """
    role = get(message, "role")
    if not isinstance(role, str):
        raise malformed(
            format, index, f"({type(message).__name__}) has no role", "give it a role or remove it"
        )
    return role


def text_of(content: object) -> str | None:
    """Return the text of a result's content; None when something other than text is in it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return None
    texts: list[str] = []
    for block in content:
        text = get(block, "text") if get(block, "type") in ("text", None) else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts) if texts else None
