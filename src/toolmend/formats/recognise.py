"""Recognise: which wire format a list of messages is in, from its shape alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from toolmend.formats import anthropic, langchain, openai_chat
from toolmend.formats.fields import get

_CHAT_ROLES: Final = frozenset(("tool", "developer", "function"))
_CHAT_BLOCKS: Final = frozenset(("image_url", "input_audio", "file", "refusal"))
_ANTHROPIC_BLOCKS: Final = frozenset(
    ("tool_use", "tool_result", "image", "document", "container_upload", "search_result")
) | (anthropic.SERVER_CALLS | anthropic.REASONING)


def recognise(messages: Sequence[object], hint: str | None = None) -> str | None:
    """Return the name of the format, None when no format fits.

    The first message that only one format can hold decides. Where plain text is all there is, every
    format agrees on it but for its name: the hint gives that, else it is ``openai-chat``.
    """
    is_plausible = False
    for message in messages:
        if isinstance(message, Mapping):
            if "role" not in message:
                if "type" in message or "parts" in message:
                    return None
                continue
            if "parts" in message:
                return None
        elif message is None or isinstance(message, str | bytes | int | float | list):
            continue
        elif langchain.is_message(message):
            return langchain.NAME
        role = get(message, "role")
        if not isinstance(role, str):
            continue
        is_plausible = True
        if role in _CHAT_ROLES or get(message, "tool_calls") is not None:
            return openai_chat.NAME
        if get(message, "function_call") is not None:
            return openai_chat.NAME
        content = get(message, "content")
        if isinstance(content, list | tuple):
            found, is_foreign = _by_blocks(content)
            if found is not None or is_foreign:
                return found
    if not is_plausible:
        return None
    return hint or openai_chat.NAME


def _by_blocks(content: Sequence[object]) -> tuple[str | None, bool]:
    """Return the format that blocks belong to, and whether they belong to none of ours."""
    for block in content:
        kind = get(block, "type")
        if kind is None:
            # Blocks without a type are those of another wire format.
            if isinstance(block, Mapping) and block and "text" not in block:
                return None, True
        elif not isinstance(kind, str):
            continue
        elif kind in _CHAT_BLOCKS:
            return openai_chat.NAME, False
        elif kind in _ANTHROPIC_BLOCKS or anthropic.is_server_result(kind):
            return anthropic.NAME, False
        elif kind.startswith(("input_", "output_")):
            return None, True
    return None, False
