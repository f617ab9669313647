"""Schema graph: which rules of a JSON Schema look at which values, references followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolmend.execution.schema_references import KEYWORDS, References, is_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_PATH: Final = 250
"""Longest way through different schemas: validators follow it by recursion, on the stack of a thread."""
_LIST_STEPS: Final = 8  # so many comparisons cost about as much as one rule

_CHOICES: Final = ("anyOf", "oneOf")
_LISTS: Final = ("allOf",)
_SINGLE: Final = ("not", "if", "then", "else")
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
_INSIDE: Final = (
    *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    *("additionalProperties", "propertyNames", "unevaluatedProperties"),
)
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_COMPARED: Final = ("enum", "required", "properties")


class SchemaTooCostlyError(ValueError):
    """A schema asks for more than anyone can wait for."""


@dataclass(slots=True, eq=False)
class Node:
    """One schema.

    Attributes:
        own: steps that it takes itself.
        same: schemas for the same value, all of which it asks.
        choices: schemas for the same value of which one has to fit.
        inside: schemas for each value inside.
        named: schemas for values inside by their names.
        marks: it asks what the others have looked at, so that they are asked again.
    """

    own: int = 1
    same: list[Node] = field(default_factory=list)
    choices: list[Node] = field(default_factory=list)
    inside: list[Node] = field(default_factory=list)
    named: list[tuple[str, Node]] = field(default_factory=list)
    marks: bool = False

    def in_place(self) -> Iterator[Node]:
        """Yield the schemas for the same value."""
        yield from self.same
        yield from self.choices

    def below(self) -> Iterator[Node]:
        """Yield the schemas for values inside."""
        yield from self.inside
        for _, node in self.named:
            yield node

    def all(self) -> Iterator[Node]:
        """Yield every schema that it leads to at once."""
        yield from self.in_place()
        yield from self.below()


class Graph:
    """All schemas that a schema leads to.

    Args:
        schema: the schema, of bounded size.
        pattern_steps: what one regular expression costs.

    Raises:
        SchemaTooCostlyError: it refers to itself in a circle that never moves on to a value inside, or
            is too long a way of references.
        ReferenceRefusedError: it has a reference that cannot be followed.
    """

    def __init__(self, schema: object, pattern_steps: int) -> None:
        self._references = References(schema)
        self._pattern_steps = pattern_steps
        self._nodes: dict[int, Node] = {}
        self._waiting: list[tuple[Mapping[str, object], Node]] = []
        self.root: Final = self._node(schema)
        while self._waiting:
            self._fill(*self._waiting.pop())
        anywhere = Node(same=list(self._nodes.values()))
        if _has_circle(anywhere, Node.in_place):
            raise SchemaTooCostlyError("it refers to itself in a circle")
        self.is_recursive: Final = _has_circle(self.root, Node.all)

    def _node(self, schema: object) -> Node:
        if not isinstance(schema, Mapping):
            return Node()
        found = self._nodes.get(id(schema))
        if found is None:
            found = self._nodes[id(schema)] = Node()
            self._waiting.append((schema, found))
        return found

    def _fill(self, schema: Mapping[str, object], node: Node) -> None:
        self._fill_in_place(schema, node)
        for key in _INSIDE:
            inner = schema.get(key)
            if is_list(inner):
                node.inside.extend(map(self._node, inner))
            elif isinstance(inner, Mapping):
                node.inside.append(self._node(inner))
        properties, patterns = schema.get("properties"), schema.get("patternProperties")
        if isinstance(properties, Mapping):
            node.named = [(name, self._node(inner)) for name, inner in properties.items()]
        if isinstance(patterns, Mapping):
            node.inside.extend(map(self._node, patterns.values()))
            node.own += self._pattern_steps * len(patterns)
        if "pattern" in schema:
            node.own += self._pattern_steps
        for key in _COMPARED:
            compared = schema.get(key)
            if is_list(compared) or isinstance(compared, Mapping):
                node.own += len(compared) // _LIST_STEPS
        node.marks = any(key in schema for key in _UNEVALUATED)

    def _fill_in_place(self, schema: Mapping[str, object], node: Node) -> None:
        node.same.extend(self._node(schema[key]) for key in _SINGLE if key in schema)
        for keys, into in ((_LISTS, node.same), (_CHOICES, node.choices)):
            for key in keys:
                listed = schema.get(key)
                if is_list(listed):
                    into.extend(map(self._node, listed))
        for key in _DEPENDENT:
            dependent = schema.get(key)
            if isinstance(dependent, Mapping):
                node.same.extend(map(self._node, dependent.values()))
        for key in KEYWORDS:
            if key in schema:
                node.same.extend(map(self._node, self._references.targets(schema[key])))


def _has_circle(start: Node, following: Callable[[Node], Iterable[Node]]) -> bool:
    """Tell whether a way leads back to where it has been.

    Raises:
        SchemaTooCostlyError: a way is too long.
    """
    done: set[int] = set()
    on_the_way = {id(start)}
    way = [(start, iter(following(start)))]
    while way:
        node, rest = way[-1]
        inner = next(rest, None)
        if inner is None:
            way.pop()
            on_the_way.discard(id(node))
            done.add(id(node))
        elif id(inner) in on_the_way:
            return True
        elif id(inner) not in done:
            if len(way) > MAX_PATH:
                raise SchemaTooCostlyError("its references are too long a way")
            on_the_way.add(id(inner))
            way.append((inner, iter(following(inner))))
    return False
