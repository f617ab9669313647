"""Attribute values that every OpenTelemetry exporter can encode, made from any Python value.

One value that cannot be encoded costs the whole batch it travels in: an integer beyond 64 bits and a
lone surrogate fail in protobuf, an arbitrary object draws a warning per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Scalar: TypeAlias = str | bool | int | float
AttributeValue: TypeAlias = (
    Scalar | tuple[str, ...] | tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]
)

_INT64: Final = range(-(2**63), 2**63)


def text(value: object) -> str:
    """Return ``value`` as a string that can be encoded, whatever it is; its type's name if it has none."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        made = value if isinstance(value, str) else str(value)
        return made.encode("utf-8", "replace").decode("utf-8")
    except Exception:  # noqa: BLE001 - the guard around our own code
        return type(value).__name__


def attribute_value(value: object) -> AttributeValue:
    """Return ``value`` itself if OpenTelemetry accepts it, else a tuple or a string that says the same.

    Sequences and sets become tuples of one type (mixed ones: of strings, sets in order), enum members
    their value, everything else its text.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return _scalar(value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(text(item) for item in value))
    if not isinstance(value, (list, tuple)):
        return text(value)  # an iterator is somebody's: reading it would empty it
    items = tuple(_scalar(item) for item in value)
    if len({type(item) for item in items}) > 1:
        return tuple(text(item) for item in value)
    return items  # type: ignore[return-value]  # all items have one type


def attributes_of(name: str, value: object) -> Iterator[tuple[str, AttributeValue]]:
    """Yield the attributes that ``value`` becomes under ``name``; a mapping is spread, nothing is none."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item is not None:
                yield f"{name}.{text(key)}", attribute_value(item)
    else:
        yield name, attribute_value(value)


def _scalar(value: object) -> Scalar:
    if isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if value in _INT64 else text(value)
    return text(value)
