"""Annotations: what those of a tool's function name, as far as it can be found."""

from __future__ import annotations

import inspect
import re
import typing
import warnings
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from toolmend.execution.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAMES: Final = re.compile(r"[\w.]+")
_AROUND_ONE: Final = frozenset(("Optional", "Union", "None", "Annotated"))


def is_context(annotation: object, names: Mapping[str, object]) -> bool:
    """Tell whether an annotation is that of the context, or of the context or None.

    Args:
        annotation: as the function has it, a text included.
        names: what the function's module knows.
    """
    if isinstance(annotation, str):
        parts = [part.rpartition(".")[2] for part in _NAMES.findall(annotation)]
        found = [part for part in parts if part not in _AROUND_ONE]
        return len(found) == 1 and (
            found[0] == ToolContext.__name__ or names.get(found[0]) is ToolContext
        )
    if annotation is ToolContext:
        return True
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    return typing.get_origin(annotation) is not type and inner[:1] == [ToolContext]


def names_around(function: Callable[..., Any]) -> Mapping[str, object]:
    """Return what the module of a function knows."""
    found = getattr(_target(function), "__globals__", None)
    return found if isinstance(found, dict) else {}


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations; without those that name what cannot be found."""
    target = _target(function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are anybody's code
        return _hints_one_by_one(target)


def _hints_one_by_one(target: Any) -> dict[str, Any]:
    """Return what can be found: a name that only type checkers know spoils no other."""
    found: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        alone = type("Alone", (), {"__annotations__": {name: annotation}})
        try:
            known = getattr(target, "__globals__", {})
            found |= typing.get_type_hints(alone, globalns=known, include_extras=True)
        except Exception:  # noqa: BLE001, S112 - the same
            continue
    return found


def _target(function: Callable[..., Any]) -> Any:
    target: Any = inspect.unwrap(function)
    target = getattr(target, "func", target)
    if not inspect.isroutine(target):
        target = getattr(target, "__call__", target)  # noqa: B004 - looked at, not called
    return target


def usable(kind: Any) -> Any:
    """Return an annotation that has a schema, else anything."""
    if kind is inspect.Parameter.empty or isinstance(kind, str):
        return Any
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TypeAdapter(kind).json_schema()
    except Exception:  # noqa: BLE001 - annotations are anybody's code
        return Any
    return kind
