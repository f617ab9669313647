"""What calls, results and texts say, in every format, whatever their ids are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.formats.case_files import gemini_field, output_text


class Block(NamedTuple):
    """kind: call, result, text, signed or other; `said` is all of it but its id."""

    message: int
    kind: str
    key: Any = None
    said: str = ""
    text: Any = None


def blocks(format: str, messages: list[Any]) -> list[Block]:
    reader = READERS[format]
    return [
        Block(index, kind, key, _written(said), text)
        for index, message in enumerate(messages)
        for kind, key, said, text in reader(message)
    ]


_Read = Iterator[tuple[str, Any, Any, Any]]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _without(value: Any, *keys: str) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if key not in keys}


def _texts(content: Any) -> _Read:
    for block in [content] if isinstance(content, str) else content or ():
        text = block if isinstance(block, str) else block.get("text")
        if text:
            yield "text", None, None, text


def _chat(message: dict[str, Any]) -> _Read:
    content = message.get("content")
    if message["role"] == "tool":
        yield "result", message["tool_call_id"], content, content
        return
    yield from _texts(content)
    for call in message.get("tool_calls") or ():
        yield "call", call["id"], _without(call, "id"), None


def _langchain(message: Any) -> _Read:
    if message.type == "tool":
        said = [message.content, message.artifact, message.status]
        yield "result", message.tool_call_id, said, message.content
        return
    yield from _texts(message.content)
    if message.type == "ai":
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        for call in calls:
            yield "call", call["id"], [call["name"], call["args"]], None
        known = {call["id"] for call in calls}
        for block in message.content if isinstance(message.content, list) else ():
            call_id = block.get("call_id", block.get("id"))
            if block["type"] in ("tool_use", "function_call") and call_id not in known:
                yield "call", call_id, _without(block, "id", "call_id"), None


def _anthropic(message: dict[str, Any]) -> _Read:
    content = message["content"]
    if isinstance(content, str):
        yield from _texts(content)
        return
    for block in content:
        kind = block["type"]
        if kind.endswith("tool_use"):
            yield "call", block["id"], _without(block, "id"), None
        elif kind.endswith("tool_result"):
            said = block.get("content")
            yield "result", block["tool_use_id"], said, said
        elif "thinking" in kind:
            yield "signed", None, block, None
        else:
            yield from _texts([block])


def _responses(item: dict[str, Any]) -> _Read:
    kind = item.get("type", "message")
    if kind == "message":
        yield from _texts(item["content"])
    elif kind.endswith("_output"):
        key = item.get("id") if kind == "local_shell_call_output" else item["call_id"]
        yield "result", key, output_text(item["output"]), output_text(item["output"])
    elif "call_id" in item:
        yield "call", item["call_id"], _without(item, "call_id"), None
    else:
        yield "signed" if kind == "reasoning" else "other", None, item, None


def _gemini(content: dict[str, Any]) -> _Read:
    for part in content["parts"]:
        call = gemini_field(part, "functionCall")
        response = gemini_field(part, "functionResponse")
        if call is not None:
            signature = gemini_field(part, "thoughtSignature")
            yield "call", call.get("id"), [_without(call, "id"), signature], None
        elif response is not None:
            said = response["response"]
            yield "result", response.get("id"), said, said.get("error")
        elif part.get("thought"):
            yield "signed", None, part, None
        elif "text" in part:
            yield from _texts([part])
        else:
            yield "other", None, part, None


def _bedrock(message: dict[str, Any]) -> _Read:
    for block in message["content"]:
        if "toolUse" in block:
            yield (
                "call",
                block["toolUse"]["toolUseId"],
                _without(block["toolUse"], "toolUseId"),
                None,
            )
        elif "toolResult" in block:
            said = block["toolResult"]
            texts = [inner.get("text") for inner in said["content"]]
            yield (
                "result",
                said["toolUseId"],
                _without(said, "toolUseId"),
                texts[0] if len(texts) == 1 else None,
            )
        elif "reasoningContent" in block:
            yield "signed", None, block, None
        else:
            yield from _texts([block])


READERS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "langchain": _langchain,
}


def owners(format: str, messages: list[Any]) -> dict[str, set[str]]:
    """Return what each result says -> what the calls say that it may answer, by position.

    Of several calls of one id in a turn, results take theirs by order. Without a call before it, a
    result may belong to the first call of its id behind it.
    """
    history = blocks(format, messages)
    found: dict[str, set[str]] = {}
    for place, block in enumerate(history):
        if block.kind != "result":
            continue
        key = _key(block)
        before = [b for b in history[:place] if b.kind == "call" and _key(b) == key]
        behind = [b for b in history[place:] if b.kind == "call" and _key(b) == key]
        turn = [b for b in before if b.message == before[-1].message] if before else behind[:1]
        nth = 0
        if len(turn) > 1:
            first = history.index(turn[0])
            nth = sum(b.kind == "result" and _key(b) == key for b in history[first:place])
        said = {call.said for call in turn[nth : nth + 1]}
        found.setdefault(block.said, set()).update(said)
    return found


def _key(block: Block) -> Any:
    return block.key.strip() if isinstance(block.key, str) else block.key
