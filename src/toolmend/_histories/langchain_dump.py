"""LangChain messages as JSON: what ``messages_to_dict`` writes, and dumps of the messages themselves.

::

    {"type": "human", "data": {"content": "hi"}}    messages_to_dict
    {"type": "human", "content": "hi"}              model_dump
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolmend._histories.failure import StoredHistoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TYPES: Final = frozenset(("human", "ai", "system", "tool", "function", "chat", "remove"))


def is_dump(messages: Sequence[object]) -> bool:
    """Tell whether a list holds LangChain messages in one of the two shapes."""
    return bool(messages) and all(map(_is_dumped, messages))


def is_serialized(messages: Sequence[object]) -> bool:
    """Tell whether a list holds what ``langchain_core.load.dumps`` writes, which is not read here."""
    return any(isinstance(message, dict) and "lc" in message for message in messages)


def _is_dumped(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    kind = message.get("type")
    if not isinstance(kind, str) or not (kind in _TYPES or kind.endswith("MessageChunk")):
        return False
    if isinstance(message.get("data"), dict):
        return True
    return "content" in message and ("role" not in message or kind.startswith(("chat", "Chat")))


class LangChainDump:
    """A list of dumped messages as LangChain's objects, and back.

    Attributes:
        objects: the messages as objects of langchain-core.

    Raises:
        StoredHistoryError: langchain-core is not installed, or cannot read a message.
    """

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self._library = _library()
        self.objects: list[object] = []
        self._dumped: dict[int, dict[str, Any]] = {}
        for index, message in enumerate(messages):
            made = self._object(index, message)
            self.objects.append(made)
            self._dumped[id(made)] = message
        self._is_wrapped = "data" in messages[0]

    def written(self, mended: Sequence[object], sources: Sequence[int | None]) -> list[object]:
        """Return messages in the shape of the list; a changed one differs in what changed alone.

        Args:
            mended: the messages.
            sources: for each the index of the message that it is a changed copy of, None for any other.
        """
        return [
            self._dumped[id(message)]
            if id(message) in self._dumped
            else self._dump(message, source)
            for message, source in zip(mended, sources, strict=True)
        ]

    def _object(self, index: int, message: dict[str, Any]) -> object:
        fields = message["data"] if isinstance(message.get("data"), dict) else message
        try:
            [made] = self._library.messages_from_dict([{"type": message["type"], "data": fields}])
        except Exception:  # noqa: BLE001 - pydantic's, whose text shows content
            raise StoredHistoryError(
                f"messages[{index}] is no message that langchain-core can read; correct it"
            ) from None
        return made

    def _dump(self, message: Any, source: int | None) -> object:
        fields = message.model_dump()
        if source is None:
            return {"type": message.type, "data": fields} if self._is_wrapped else fields
        original: Any = self.objects[source]
        before = original.model_dump()
        changed = {
            name: value
            for name, value in fields.items()
            if name not in before or before[name] != value
        }
        dumped = self._dumped[id(original)]
        if isinstance(dumped.get("data"), dict):
            return {**dumped, "data": {**dumped["data"], **changed}}
        return {**dumped, **changed}


def _library() -> Any:
    try:
        return import_module("langchain_core.messages")
    except ImportError:
        raise StoredHistoryError(
            "these are LangChain messages, which need langchain-core: pip install langchain-core"
        ) from None
