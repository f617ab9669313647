"""Answers of a model, read from SDK objects and plain JSON alike."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that a model asks for."""

    id: str
    name: str
    arguments: str
    """As JSON; cut off where a stream broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered.

    Attributes:
        message: the message as an application appends it to its history.
        calls: the tool calls that it asks for.
        is_cut: whether the stream broke before the answer was complete.
    """

    message: object
    calls: tuple[Call, ...]
    is_cut: bool = False


def as_json(value: object) -> Any:
    """Return an SDK's object as the JSON it came from; JSON stays as it is."""
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump()


def read_chat(answer: Any) -> Answer:
    """Read a chat completion; the message stays the object that it is."""
    choices = answer["choices"] if isinstance(answer, dict) else answer.choices
    message = choices[0]["message"] if isinstance(answer, dict) else choices[0].message
    found = as_json(message).get("tool_calls") or []
    calls = tuple(map(_chat_call, found))
    return Answer(message=message, calls=calls)


def read_message(answer: Any) -> Answer:
    """Read an Anthropic message; its blocks stay the objects that they are."""
    content = answer["content"] if isinstance(answer, dict) else answer.content
    blocks = [as_json(block) for block in content]
    calls = tuple(
        Call(id=block["id"], name=block["name"], arguments=json.dumps(block["input"]))
        for block in blocks
        if block["type"] == "tool_use"
    )
    return Answer(message={"role": "assistant", "content": content}, calls=calls)


async def collect_chat(stream: AsyncIterator[object], cut_at: str | None) -> Answer:
    """Read a stream of chat completion chunks into a message.

    Args:
        stream: the chunks.
        cut_at: id of the call inside whose arguments the connection breaks.
    """
    text = ""
    calls: list[dict[str, Any]] = []
    is_cut = False
    async for chunk in stream:
        for choice in as_json(chunk)["choices"]:
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or []:
                _add_part(calls, part)
        if calls and calls[-1]["id"] == cut_at and calls[-1]["function"]["arguments"]:
            is_cut = True
            break
    await _close(stream)
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    return Answer(
        message=message,
        calls=tuple(map(_chat_call, calls)),
        is_cut=is_cut,
    )


def _chat_call(call: dict[str, Any]) -> Call:
    function = call["function"]
    return Call(id=call["id"], name=function["name"], arguments=function["arguments"])


def _add_part(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    function = part["function"]
    if part["index"] == len(calls):
        calls.append(
            {
                "id": part["id"],
                "type": "function",
                "function": {"name": function["name"], "arguments": ""},
            }
        )
    calls[part["index"]]["function"]["arguments"] += function.get("arguments") or ""


async def _close(stream: Any) -> None:
    await (stream.close() if hasattr(stream, "close") else stream.aclose())
