"""Shapes: messages and tools as each wire format writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend._demo.cast import TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolmend._demo.cast import Wire

JsonObject = dict[str, object]


def user_message(text: str) -> JsonObject:
    """Return what a user typed; the same in both formats."""
    return {"role": "user", "content": text}


def result_messages(wire: Wire, results: Mapping[str, str]) -> list[JsonObject]:
    """Return the results of tool calls, by call id, as messages; none if there is no result."""
    if wire == "openai-chat":
        return [
            {"role": "tool", "tool_call_id": call_id, "content": text}
            for call_id, text in results.items()
        ]
    blocks: list[JsonObject] = [
        {"type": "tool_result", "tool_use_id": call_id, "content": text}
        for call_id, text in results.items()
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


def tool_definitions(wire: Wire) -> list[JsonObject]:
    """Return the tools as a request offers them."""
    schema: JsonObject = {"type": "object"}
    if wire == "anthropic":
        return [
            {"name": name, "description": text, "input_schema": schema}
            for name, text in TOOLS.items()
        ]
    return [
        {
            "type": "function",
            "function": {"name": name, "description": text, "parameters": schema},
        }
        for name, text in TOOLS.items()
    ]
