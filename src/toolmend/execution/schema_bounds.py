"""Schema bounds: how many steps a JSON Schema may take, counted before it is used.

A schema may come from elsewhere, and a few lines of references can ask for more steps than anyone can
wait for. Nothing here is timed: what is counted is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

MAX_STEPS: Final = 200_000
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 64
_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_BELOW_LISTS: Final = ("prefixItems",)
_BELOW_MAPS: Final = ("properties", "patternProperties")
_BELOW: Final = (
    *("items", "additionalItems", "additionalProperties", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)


class SchemaTooCostlyError(ValueError):
    """A schema asks for more than anyone can wait for."""


class SchemaBounds:
    """Counts the steps of a schema.

    Args:
        schema: the schema.

    Raises:
        SchemaTooCostlyError: it is too large, nested too deeply, or refers to itself in a circle.
    """

    def __init__(self, schema: object) -> None:
        self._root = schema
        _bound_size(schema)
        self._is_recursive = self._has_recursion()
        if not self._is_recursive:
            self._count(schema, _ANYTHING, {}, [])

    def check(self, instance: object) -> None:
        """Count the steps for one value, which only a schema that refers to itself needs.

        Raises:
            SchemaTooCostlyError: they are too many.
        """
        if self._is_recursive:
            self._count(self._root, instance, {}, [])

    def _has_recursion(self) -> bool:
        """Tell whether some reference leads back to where it stands."""
        done: set[int] = set()
        open_nodes: set[int] = set()

        def visit(node: object) -> bool:
            if not isinstance(node, Mapping) or id(node) in done:
                return False
            if id(node) in open_nodes:
                return True
            open_nodes.add(id(node))
            found = any(visit(inner) for inner in (*self._in_place(node), *_all_below(node)))
            open_nodes.discard(id(node))
            done.add(id(node))
            return found

        return visit(self._root)

    def _count(
        self,
        schema: object,
        instance: object,
        known: dict[tuple[int, int], int],
        path: list[tuple[int, int]],
    ) -> int:
        """Return the steps that a schema takes on a value, at most; each pair is counted once."""
        if not isinstance(schema, Mapping):
            return 1
        key = (id(schema), id(instance))
        if key in known:
            return known[key]
        if key in path or len(path) > 20 * _MAX_DEPTH:
            raise SchemaTooCostlyError("it refers to itself in a circle")
        path.append(key)
        steps = 1 + sum(
            self._count(inner, instance, known, path) for inner in self._in_place(schema)
        )
        for inner, values in _below(schema, instance):
            for value in values:
                steps += self._count(inner, value, known, path)
        path.pop()
        if steps > MAX_STEPS:
            raise SchemaTooCostlyError("it takes too many steps")
        known[key] = steps
        return steps

    def _in_place(self, schema: Mapping[str, object]) -> list[object]:
        """Return the schemas that look at the same value."""
        found = [schema[name] for name in _IN_PLACE if name in schema]
        for name in _IN_PLACE_LISTS:
            listed = schema.get(name)
            if _is_list(listed):
                found.extend(listed)
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, Mapping):
            found.extend(dependent.values())
        for name in _REFERENCES:
            target = self._target(schema.get(name))
            if target is not None:
                found.append(target)
        return found

    def _target(self, reference: object) -> object:
        """Return what a reference inside this schema names; None for any other, which is refused later."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at: object = self._root
        for step in reference[1:].split("/")[1:] if "/" in reference else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(at, Mapping):
                at = at.get(name)
            elif _is_list(at) and name.isdecimal():
                at = at[int(name)] if int(name) < len(at) else None
            else:
                return None
        return at


_ANYTHING: Final = object()
"""Stands for any value: every schema below is counted once."""


def _all_below(schema: Mapping[str, object]) -> list[object]:
    return [inner for inner, _ in _below(schema, _ANYTHING)]


def _below(schema: Mapping[str, object], instance: object) -> list[tuple[object, Sequence[object]]]:
    """Return the schemas for what is inside a value, each with the values that it looks at."""
    inside = _inside(instance)
    if inside is None:
        return []
    found: list[tuple[object, Sequence[object]]] = []
    for name in (*_BELOW, *_BELOW_LISTS):
        inner = schema.get(name)
        listed = inner if _is_list(inner) else () if inner is None else (inner,)
        found.extend((one, inside) for one in listed)
    for name in _BELOW_MAPS:
        mapped = schema.get(name)
        if isinstance(mapped, Mapping):
            found.extend(
                (inner, _named(instance, key) if name == "properties" else inside)
                for key, inner in mapped.items()
            )
    return found


def _inside(instance: object) -> Sequence[object] | None:
    """Return what is inside a value; None when nothing can be."""
    if instance is _ANYTHING:
        return (_ANYTHING,)
    if isinstance(instance, Mapping):
        return list(instance.values())
    return instance if _is_list(instance) else None


def _named(instance: object, key: str) -> Sequence[object]:
    if instance is _ANYTHING:
        return (_ANYTHING,)
    return (instance[key],) if isinstance(instance, Mapping) and key in instance else ()


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _bound_size(schema: object) -> None:
    nodes = 0
    waiting: list[tuple[object, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise SchemaTooCostlyError("it is too large or nested too deeply")
        if isinstance(node, Mapping):
            waiting.extend((inner, depth + 1) for inner in node.values())
        elif _is_list(node):
            waiting.extend((inner, depth + 1) for inner in node)
