"""Recognise: which wire format a list of messages is in, from its shape alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from toolmend.formats import anthropic, bedrock, gemini, langchain, openai_chat, openai_responses
from toolmend.formats.anthropic_blocks import REASONING, SERVER_CALLS, is_server_result
from toolmend.formats.fields import get, kind_of
from toolmend.formats.responses_items import is_item_type

_CHAT_ROLES: Final = frozenset(("tool", "developer", "function"))
_CHAT_BLOCKS: Final = frozenset(("image_url", "input_audio", "file", "refusal"))
_ANTHROPIC_BLOCKS: Final = frozenset(
    ("tool_use", "tool_result", "image", "document", "container_upload", "search_result")
) | (SERVER_CALLS | REASONING)


_RESPONSES_BLOCKS: Final = frozenset(("input_text", "input_image", "input_file", "output_text"))
_FOREIGN_KEYS: Final = frozenset(("type", "kind", "part_kind"))
"""By which agent frameworks tell parts apart; Gemini's have none of them."""
_GEMINI_ROLES: Final = (None, "user", "model", "function", "tool")

_FOREIGN: Final = "foreign"
_PLAIN: Final = "plain"


def recognise(messages: Sequence[object], hint: str | None = None) -> str | None:
    """Return the name of the format, None when no format fits.

    The first message that only one format can hold decides. Where plain text is all there is, every
    format agrees on it but for its name: the hint gives that, else it is ``openai-chat``.
    """
    if _has_langchain_objects(messages):
        return langchain.NAME
    is_plausible = False
    for message in messages:
        found = _format_of(message)
        if found == _FOREIGN:
            return None
        if found == _PLAIN:
            is_plausible = True
        elif found is not None:
            return found
    return (hint or openai_chat.NAME) if is_plausible else None


def _has_langchain_objects(messages: Sequence[object]) -> bool:
    """Tell whether objects of LangChain stand in the list: chat models take dicts beside them."""
    return any(type(message) is not dict and langchain.is_message(message) for message in messages)


def _format_of(message: object) -> str | None:
    """Return what one message tells: a format, plain text, a foreign format, or nothing."""
    if isinstance(message, Mapping):
        if "parts" in message:
            return _format_of_parts(message)
        if "type" in message and ("role" not in message or message["type"] == "message"):
            if _is_anthropic_answer(message):
                return anthropic.NAME
            is_item = is_item_type(message["type"]) and (
                message["type"] != "message" or isinstance(message.get("role"), str)
            )
            return openai_responses.NAME if is_item else _FOREIGN
    elif message is None or isinstance(message, str | bytes | int | float | list):
        return None
    elif hasattr(message, "parts"):
        return _format_of_parts(message)
    elif is_item_type(getattr(message, "type", None)):
        return anthropic.NAME if _is_anthropic_answer(message) else openai_responses.NAME
    role = get(message, "role")
    if not isinstance(role, str):
        return None
    content = get(message, "content")
    calls = get(message, "tool_calls")
    if calls is not None and _are_of_other_chat(calls):
        return _FOREIGN
    blocks = _format_of_blocks(content) if isinstance(content, list | tuple) else _PLAIN
    if blocks == _FOREIGN:
        return _FOREIGN
    if role in _CHAT_ROLES or calls is not None or get(message, "function_call") is not None:
        return openai_chat.NAME
    return blocks


def _is_anthropic_answer(message: object) -> bool:
    """Tell the answer of the Messages API from an item: both are a ``message`` with a role."""
    content = get(message, "content")
    return isinstance(content, list | tuple) and _format_of_blocks(content) == anthropic.NAME


def _format_of_parts(message: object) -> str:
    """Tell Gemini's contents from messages of agent frameworks, whose parts have a type or a kind."""
    parts = get(message, "parts")
    role = get(message, "role")
    if role not in _GEMINI_ROLES or not isinstance(parts, list | tuple):
        return _FOREIGN
    for part in parts:
        if isinstance(part, Mapping):
            if not part or _FOREIGN_KEYS & part.keys():
                return _FOREIGN
        elif not hasattr(part, "function_call"):
            return _FOREIGN
    return gemini.NAME


def _are_of_other_chat(calls: object) -> bool:
    """Tell whether calls have no ids at all and objects as arguments, as local runtimes write them."""
    return (
        isinstance(calls, list | tuple)
        and bool(calls)
        and all(
            isinstance(call, Mapping)
            and "id" not in call
            and isinstance(get(get(call, "function"), "arguments"), Mapping)
            for call in calls
        )
    )


def _format_of_blocks(content: Sequence[object]) -> str:
    for block in content:
        kind = kind_of(block)
        if kind is None:
            # Blocks without a type are those of another wire format.
            if isinstance(block, Mapping) and block:
                return bedrock.NAME if bedrock.BLOCKS & block.keys() else _FOREIGN
        elif kind in _CHAT_BLOCKS:
            return openai_chat.NAME
        elif kind in _ANTHROPIC_BLOCKS or is_server_result(kind):
            return anthropic.NAME
        elif kind in _RESPONSES_BLOCKS:
            return openai_responses.NAME
        elif kind.startswith(("input_", "output_", "tool-")):
            return _FOREIGN
    return _PLAIN
