"""Small histories that tests share."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]


def user(text: str = "go") -> Message:
    return {"role": "user", "content": text}


def assistant(*ids: str, text: str | None = None, tool: str = "search") -> Message:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}}
        for call_id in ids
    ]
    message: Message = {"role": "assistant", "content": text}
    return {**message, "tool_calls": calls} if calls else message


def tool(call_id: str, text: str = "42") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def clean() -> list[Message]:
    return [user(), assistant("c1"), tool("c1"), user("next")]


def dangling() -> list[Message]:
    return [user(), assistant("c1"), user("next")]
