"""Schema references: what a reference inside a JSON Schema names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard
from urllib.parse import unquote, urljoin

KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_IDS: Final = ("$id", "id")


class ReferenceRefusedError(ValueError):
    """A reference that cannot be followed inside its schema."""


class References:
    """Follows the references of one schema: pointers and anchors.

    Whatever else a reference may name is refused: other documents, those that a validator brings along
    included, since nobody has counted what they ask for, and documents inside of the schema, since
    validators do not agree on what a pointer means there.

    Args:
        schema: the schema, of bounded size.
    """

    def __init__(self, schema: object) -> None:
        self._root = schema
        self._address = ""
        self._has_inner_documents = False
        self._ids = _IDS if _is_old(schema) else _IDS[:1]
        self._anchors: dict[str, list[object]] = {}
        self._collect(schema)

    def targets(self, reference: object) -> list[object]:
        """Return what a reference may name.

        Raises:
            ReferenceRefusedError: it cannot be followed.
        """
        if not isinstance(reference, str):
            return []  # no schema, which its compilation tells
        document, _, fragment = reference.partition("#")
        if document and urljoin(self._address, document) != self._address:
            raise ReferenceRefusedError("it refers to another document")
        if self._has_inner_documents:
            raise ReferenceRefusedError("it has references and documents inside of itself")
        if not fragment:
            return [self._root]
        if fragment.startswith("/") and "%2f" not in fragment.lower():
            found = self._pointed(fragment.split("/")[1:])
        else:  # an encoded slash may be one of the pointer's own or none: no anchor is called so
            found = self._anchors.get(unquote(fragment), [])
        if not found:
            raise ReferenceRefusedError("it refers to what is not there")
        return found

    def _collect(self, schema: object) -> None:
        """Find anchors and documents anywhere, since a pointer may lead to any place."""
        waiting = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Mapping):
                self._note(node)
                waiting.extend(node.values())
            elif is_list(node):
                waiting.extend(node)

    def _note(self, node: Mapping[str, object]) -> None:
        for key in _ANCHORS:
            anchor = node.get(key)
            if isinstance(anchor, str):
                self._anchors.setdefault(anchor, []).append(node)
        for key in self._ids:
            address = node.get(key)
            if not isinstance(address, str):
                continue
            if address.startswith("#"):  # an anchor, in older drafts
                self._anchors.setdefault(address[1:], []).append(node)
            elif node is self._root:
                self._address = address.partition("#")[0]
            else:
                self._has_inner_documents = True

    def _pointed(self, steps: Sequence[str]) -> list[object]:
        at: object = self._root
        for step in steps:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(at, Mapping) and name in at:
                at = at[name]
            elif is_list(at) and name.isdecimal() and int(name) < len(at):
                at = at[int(name)]
            else:
                return []
        return [at]


def _is_old(schema: object) -> bool:
    """Tell whether a schema is of draft 4, where ``id`` is what ``$id`` is later."""
    draft = schema.get("$schema") if isinstance(schema, Mapping) else None
    return isinstance(draft, str) and "draft-04" in draft


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Tell whether a value is a list of JSON."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
