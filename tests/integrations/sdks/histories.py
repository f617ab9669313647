"""A broken and a clean history in each format that the SDKs speak."""

from __future__ import annotations

from typing import Any

from tests.unit.histories import assistant, tool, user


def _call() -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}


def _use() -> dict[str, Any]:
    block = {"type": "tool_use", "id": "c1", "name": "search", "input": {}}
    return {"role": "assistant", "content": [block]}


def _result() -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "42"}
    return {"role": "user", "content": [block, {"type": "text", "text": "next"}]}


def _output() -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c1", "output": "42"}


def broken(wire_format: str) -> list[Any]:
    """Return a history with a call that has no result."""
    if wire_format == "anthropic":
        return [user(), _use(), user("next")]
    middle = _call() if wire_format == "openai-responses" else assistant("c1")
    return [user(), middle, user("next")]


def clean(wire_format: str) -> list[Any]:
    """Return a history that needs nothing."""
    if wire_format == "anthropic":
        return [user(), _use(), _result()]
    if wire_format == "openai-responses":
        return [user(), _call(), _output(), user("next")]
    return [user(), assistant("c1"), tool("c1"), user("next")]


def delta(wire_format: str) -> list[Any]:
    """Return what continues a history on the server: a result without its call."""
    if wire_format == "anthropic":
        return [_result()]
    return [_output()] if wire_format == "openai-responses" else [tool("c1")]
