"""Schema bounds: how many steps a JSON Schema may take, counted before it is used.

A schema may come from elsewhere, and a few lines of references can ask for more steps than anyone can
wait for. Nothing here is timed: what is counted is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from toolmend.execution.schema_graph import Graph, Node, SchemaTooCostlyError
from toolmend.execution.schema_references import is_list

MAX_STEPS: Final = 200_000
MAX_VALUE_STEPS: Final = 500_000
_UNCOUNTED_STEPS: Final = 4_000_000
"""What a value of that size takes at most is not counted one by one, which takes longer than to do it."""
_MAX_TOLD_STEPS: Final = 10_000_000
_ERROR_STEPS: Final = 500
"""An error takes so many steps, and as many again as the value is large, of which it keeps a copy."""
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 64


Telling = Literal["all", "first", "nothing"]


class ValueTooCostlyError(ValueError):
    """A schema asks for more than anyone can wait for, with this value."""


class _Cost(NamedTuple):
    """Steps of one schema on one value, at most.

    Attributes:
        judge: to tell whether the value fits.
        mark: to find out once more what was looked at.
        tell: those of them whose errors are kept to say what the first one is: all of a choice.
    """

    judge: int
    mark: int
    tell: int


class SchemaBounds:
    """Counts the steps of a schema.

    Args:
        schema: the schema.
        pattern_steps: what one regular expression costs.

    Raises:
        SchemaTooCostlyError: it is too large, nested too deeply, or refers to itself in a circle.
        ReferenceRefusedError: it has a reference that cannot be followed.
    """

    def __init__(self, schema: object, pattern_steps: int = 1) -> None:
        _bound_size(schema)
        graph = Graph(schema, pattern_steps)
        self._root = graph.root
        self._once: _Cost | None = (
            None  # for a value that is a single one; None where none is enough
        )
        if not graph.is_recursive:
            try:
                self._once = _cost(self._root, _ANYTHING, MAX_STEPS)
            except ValueTooCostlyError:
                raise SchemaTooCostlyError("it takes too many steps") from None

    def check(self, value: object) -> None:
        """Refuse a value that takes too many steps.

        Raises:
            ValueTooCostlyError: it does.
        """
        if self._once is None or self._once.judge * _size(value) > _UNCOUNTED_STEPS:
            _cost(self._root, value, MAX_VALUE_STEPS)

    def telling(self, value: object) -> Telling:
        """Return how much can be said about what is wrong with a value that was not refused."""
        size = _size(value)
        each = _ERROR_STEPS + size
        if self._once is not None and self._once.judge * size * each <= _MAX_TOLD_STEPS:
            return "all"
        try:
            cost = _cost(self._root, value, MAX_VALUE_STEPS)
        except ValueTooCostlyError:
            if self._once is None:
                return "nothing"
            cost = _Cost(self._once.judge * size, 0, self._once.tell * size)
        if cost.judge * each <= _MAX_TOLD_STEPS:
            return "all"
        return "first" if cost.tell * each <= _MAX_TOLD_STEPS else "nothing"


_ANYTHING: Final = object()
"""Stands for any single value: every schema below is counted once."""
_Pair = tuple[Node, object]


def _cost(root: Node, value: object, limit: int) -> _Cost:
    """Return what a schema takes on a value; each pair of the two is counted once.

    Raises:
        ValueTooCostlyError: it is more than the limit.
    """
    known: dict[tuple[int, int], _Cost] = {}
    waiting: list[_Pair] = [(root, value)]
    visited = 0
    while waiting:
        node, at = waiting[-1]
        key = (id(node), id(at))
        if key in known:
            waiting.pop()
            continue
        below = _below(node, at, limit)
        missing = [(one, at) for one in node.in_place() if (id(one), id(at)) not in known]
        missing += [pair for pair in below if (id(pair[0]), id(pair[1])) not in known]
        visited += len(missing)
        if visited > limit:
            raise ValueTooCostlyError
        if missing:
            waiting.extend(missing)
            continue
        cost = _sum(node, at, below, known)
        if cost.judge > limit:
            raise ValueTooCostlyError
        known[key] = cost
        waiting.pop()
    return known[id(root), id(value)]


def _sum(node: Node, at: object, below: list[_Pair], known: dict[tuple[int, int], _Cost]) -> _Cost:
    judge, mark, tell = node.own, 0, 0
    for one in node.same:
        cost = known[id(one), id(at)]
        judge, mark, tell = judge + cost.judge, mark + cost.judge + cost.mark, tell + cost.tell
    for one in node.choices:
        cost = known[id(one), id(at)]
        judge, mark, tell = judge + cost.judge, mark + cost.judge + cost.mark, tell + cost.judge
    for inner, inside in below:
        cost = known[id(inner), id(inside)]
        judge, tell = judge + cost.judge, tell + cost.tell
    return _Cost(judge + mark if node.marks else judge, mark, tell)


def _below(node: Node, value: object, limit: int) -> list[_Pair]:
    """Return the schemas for what is inside a value, each with every value that it looks at."""
    if value is _ANYTHING:
        return [(inner, value) for inner in node.below()]
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, list | tuple):
        inside = list(value)
    else:
        return []
    if len(inside) * len(node.inside) > limit:
        raise ValueTooCostlyError
    found: list[_Pair] = [(inner, one) for inner in node.inside for one in inside]
    if isinstance(value, dict):
        found.extend((inner, value[name]) for name, inner in node.named if name in value)
    return found


def _size(value: object) -> int:
    """Return how many values a value is, with all that is inside of it."""
    waiting = [value]
    count = 0
    while waiting:
        at = waiting.pop()
        count += 1
        if isinstance(at, dict):
            waiting.extend(at.values())
        elif isinstance(at, list | tuple):
            waiting.extend(at)
    return count


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
        elif is_list(node):
            waiting.extend((inner, depth + 1) for inner in node)
