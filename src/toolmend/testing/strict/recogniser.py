"""The format of a history, recognised from its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from toolmend.testing.strict.plain import as_items, as_mapping

Format = Literal["openai-chat", "anthropic", "langchain"]

_LANGCHAIN_KINDS = ("human", "ai", "tool", "system", "function", "chat", "remove")
_LANGCHAIN_CHUNKS = "MessageChunk"
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "thinking", "redacted_thinking"}
)


def recognise(messages: Sequence[object]) -> Format:
    """Return the format of a history; without anything telling it is `openai-chat`.

    ValueError for an item that belongs to none of the formats: to judge it by the rules of
    another one would call it legal.
    """
    if any(_is_langchain(message) for message in messages):
        return "langchain"
    for index, message in enumerate(messages):
        if _is_foreign(message):
            raise ValueError(
                f"messages[{index}] is no message of OpenAI Chat, Anthropic or langchain-core; "
                "name its format if it is one all the same"
            )
    if any(_is_anthropic(message) for message in messages):
        return "anthropic"
    return "openai-chat"


def _is_langchain(message: object) -> bool:
    if isinstance(message, Mapping):
        return "role" not in message and _is_langchain_kind(message.get("type"))
    return hasattr(message, "additional_kwargs") and (
        _is_langchain_kind(getattr(message, "type", None))
    )


def _is_langchain_kind(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _LANGCHAIN_KINDS or kind.endswith(_LANGCHAIN_CHUNKS))


def _is_foreign(message: object) -> bool:
    fields = as_mapping(message)
    if fields is None:
        return False
    if "role" not in fields or "parts" in fields:
        return True
    blocks = [as_mapping(item) or {} for item in as_items(fields.get("content")) or ()]
    return any("toolUse" in block or "toolResult" in block for block in blocks)


def _is_anthropic(message: object) -> bool:
    content = (as_mapping(message) or {}).get("content")
    for item in as_items(content) or ():
        kind = (as_mapping(item) or {}).get("type")
        if isinstance(kind, str) and (kind in _ANTHROPIC_BLOCKS or kind.endswith("tool_result")):
            return True
    return False
