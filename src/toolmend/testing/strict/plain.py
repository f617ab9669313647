"""Messages, blocks and calls as plain values, whichever SDK made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast, runtime_checkable


@runtime_checkable
class _Dumpable(Protocol):
    def model_dump(self, *, warnings: bool) -> dict[str, object]: ...


def as_mapping(value: object) -> Mapping[str, object] | None:
    """Return a dict as it is, a pydantic object as a dict, and None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    if isinstance(value, _Dumpable) and not isinstance(value, type):
        return value.model_dump(warnings=False)
    return None


def as_items(value: object) -> Sequence[object] | None:
    """Return a list or tuple as it is, and None for anything else."""
    return value if isinstance(value, list | tuple) else None


def is_blank(value: object) -> bool:
    """Tell whether a value is no text, or a text of nothing but blanks."""
    return not isinstance(value, str) or not value.strip()


def as_id(value: object) -> str | None:
    """Return an id, or None for one that counts as missing: no string, empty, only blanks."""
    return value if isinstance(value, str) and value.strip() else None


def shown(value: object) -> str:
    """Return a value for the text of a problem: a string as it is, anything else by its type.

    Printing may fail: a number may be too long, a list too deep.
    """
    return value if isinstance(value, str) else type(value).__name__
