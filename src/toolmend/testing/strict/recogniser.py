"""The format of a history, recognised from its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from toolmend.testing.strict.plain import as_items, as_mapping

Format = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "langchain"]

_LANGCHAIN_KINDS = ("human", "ai", "tool", "system", "function", "chat", "remove")
_LANGCHAIN_CHUNKS = "MessageChunk"
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "thinking", "redacted_thinking"}
)
_RESPONSES_BLOCKS = ("input_text", "input_image", "input_file", "output_text")
_BEDROCK_BLOCKS = (
    "text",
    "image",
    "document",
    "video",
    "audio",
    "toolUse",
    "toolResult",
    "guardContent",
    "cachePoint",
    "reasoningContent",
    "citationsContent",
    "searchResult",
)


def recognise(messages: Sequence[object]) -> Format:
    """Return the format of a history; without anything telling it is `openai-chat`.

    ValueError for an item that belongs to none of the formats, and for items of several: to judge
    one by the rules of another would call it legal.
    """
    if any(_is_langchain(message) for message in messages):
        return "langchain"
    telling: dict[Format, int] = {}
    for index, message in enumerate(messages):
        fields = as_mapping(message)
        if fields is None:
            continue
        found = _format_of(fields)
        if found is None and fields.get("role") is None:
            raise ValueError(
                f"messages[{index}] is no message of a known format; name its format if it is one "
                "all the same"
            )
        if found is not None:
            telling.setdefault(found, index)
    if len(telling) > 1:
        (first, index), (second, other), *_ = telling.items()
        raise ValueError(
            f"messages[{index}] is of {first} and messages[{other}] of {second}; name the format"
        )
    return next(iter(telling), "openai-chat")


def _is_langchain(message: object) -> bool:
    if isinstance(message, Mapping):
        return "role" not in message and _is_langchain_kind(message.get("type"))
    return hasattr(message, "additional_kwargs") and (
        _is_langchain_kind(getattr(message, "type", None))
    )


def _is_langchain_kind(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _LANGCHAIN_KINDS or kind.endswith(_LANGCHAIN_CHUNKS))


def _format_of(fields: Mapping[str, object]) -> Format | None:
    """Return the format that one message tells; None when it may be of several."""
    if "parts" in fields:
        return "gemini"
    kind, role = fields.get("type"), fields.get("role")
    if role is None:
        # An item; one without a type refers to an item on the server.
        is_item = isinstance(kind, str) or (kind is None and isinstance(fields.get("id"), str))
        return "openai-responses" if is_item else None
    # Answers of Anthropic are of the type `message` too, but name their model.
    if kind == "message" and "model" not in fields:
        return "openai-responses"
    for item in as_items(fields.get("content")) or ():
        found = _format_of_block(as_mapping(item) or {})
        if found is not None:
            return found
    return None


def _format_of_block(block: Mapping[str, object]) -> Format | None:
    kind = block.get("type")
    if not isinstance(kind, str):
        is_bedrock = any(block.get(name) is not None for name in _BEDROCK_BLOCKS)
        return "bedrock" if is_bedrock else None
    if kind in _ANTHROPIC_BLOCKS or kind.endswith("tool_result"):
        return "anthropic"
    return "openai-responses" if kind in _RESPONSES_BLOCKS else None
