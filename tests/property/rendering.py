"""Rendering: an outline written as messages of one format, as dicts and as objects of its SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import anthropic.types as anthropic_types
import openai.types.chat as openai_types
import openai.types.responses as responses_types
from google.genai import types as gemini_types
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.property.outline import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    GEMINI,
    LANGCHAIN,
    RESPONSES,
    Item,
    Part,
)

EMPTY_CONTENTS = ("", None, [], "  ")


def render(format: str, items: Sequence[Item]) -> list[Any]:
    if format == RESPONSES:
        return [_responses(item.role, part, item.style) for item in items for part in item.parts]
    return [RENDERERS[format](item) for item in items]


def _texts(item: Item) -> list[Part]:
    return [part for part in item.parts if part.kind in ("text", "image")]


def _is_one_text(parts: Sequence[Part]) -> bool:
    return len(parts) == 1 and parts[0].kind == "text"


def _result_content(part: Part) -> Any:
    if part.style == 4:
        return [{"type": "text", "text": part.mark}]
    return "" if part.style == 5 else part.mark


def _number(part: Part) -> int:
    digits = "".join(filter(str.isdigit, str(part.name)))
    return int(digits or "0")


# OpenAI Chat


def _chat(item: Item) -> Any:
    if item.role == "tool":
        part = item.parts[0]
        content = _result_content(part)
        return {"role": "tool", "tool_call_id": part.id, "content": content}
    if item.role == "function":
        return {"role": "function", "name": item.parts[0].name, "content": item.parts[0].mark}
    texts = _texts(item)
    content: Any = EMPTY_CONTENTS[item.style % 4]
    if _is_one_text(texts) and item.style != 1:
        content = texts[0].mark
    elif texts:
        content = [_chat_block(part) for part in texts]
    role = "developer" if item.role == "system" and item.style == 3 else item.role
    message: dict[str, Any] = {"role": role, "content": content}
    if item.role != "assistant":
        return message
    calls = [_chat_call(part) for part in item.parts if part.kind == "call"]
    if calls or item.has_call_list:
        message["tool_calls"] = calls
    if not texts and item.style == 4:
        del message["content"]
    for part in item.parts:
        if part.kind == "function_call":
            message["function_call"] = {"name": part.name, "arguments": "{}"}
    if item.style == 5 and content is not None and item.parts:
        message["reasoning_content"] = "reasoning"
    if item.style >= 6 and isinstance(content, str) and all(map(_is_plain_call, calls)):
        return openai_types.ChatCompletionMessage(
            role="assistant", content=content, tool_calls=calls or None
        )
    return message


def _is_plain_call(call: dict[str, Any]) -> bool:
    function = call.get("function") or {}
    values = (call["id"], function.get("name"), function.get("arguments"))
    return all(isinstance(value, str) for value in values)


def _chat_block(part: Part) -> dict[str, Any]:
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": f"https://example.org/{part.mark}"}}
    return {"type": "text", "text": part.mark}


def _chat_call(part: Part) -> dict[str, Any]:
    if part.style == 5:
        body = {"name": part.name, "input": "free text, {"}
        return {"id": part.id, "type": "custom", "custom": body}
    return _function_call(part)


def _function_call(part: Part) -> dict[str, Any]:
    arguments = part.arguments
    if arguments is None and part.style != 0:
        arguments = json.dumps({"n": _number(part)})
    elif arguments is None:
        arguments = "{}"
    function = {"name": part.name, "arguments": arguments}
    return {"id": part.id, "type": "function", "function": function}


# Anthropic


def _anthropic(item: Item) -> Any:
    content: Any = EMPTY_CONTENTS[item.style % 4]
    if _is_one_text(item.parts) and item.style % 2 == 0:
        content = item.parts[0].mark
    elif item.parts:
        content = [_anthropic_block(part) for part in item.parts]
        if item.role == "assistant" and item.style >= 6:
            content = [_anthropic_object(block) for block in content]
    return {"role": item.role, "content": content}


def _anthropic_block(part: Part) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": part.mark}
    if part.kind == "image":
        return {"type": "image", "source": {"type": "url", "url": f"https://x/{part.mark}"}}
    if part.kind == "thinking":
        if part.style == 2:
            return {"type": "redacted_thinking", "data": part.mark}
        return {"type": "thinking", "thinking": part.mark, "signature": "signed"}
    if part.kind == "result":
        block = {"type": "tool_result", "tool_use_id": part.id, "content": _result_content(part)}
        if part.style == 3:
            block["is_error"] = True
        return block
    if part.kind == "server_result":
        return _server_result(part)
    arguments = part.arguments
    if part.kind == "server_call":
        if part.name == "mcp":
            head = {"type": "mcp_tool_use", "name": "remote", "server_name": "s"}
        else:
            head = {"type": "server_tool_use", "name": part.name}
        return {**head, "id": part.id, "input": {"query": part.mark}}
    if arguments is None:
        arguments = {"n": _number(part)} if part.style != 0 else {}
    block = {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
    if part.style == 9:
        block["caller"] = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    return block


def _server_result(part: Part) -> dict[str, Any]:
    if part.name == "mcp":
        content = [{"type": "text", "text": part.mark}]
        return {
            "type": "mcp_tool_result",
            "tool_use_id": part.id,
            "is_error": False,
            "content": content,
        }
    name = "tool_search" if str(part.name).startswith("tool_search") else part.name
    content = [{"type": "some_result", "title": part.mark}]
    return {"type": f"{name}_tool_result", "tool_use_id": part.id, "content": content}


_BLOCK_CLASSES = {
    "text": anthropic_types.TextBlock,
    "thinking": anthropic_types.ThinkingBlock,
    "redacted_thinking": anthropic_types.RedactedThinkingBlock,
    "tool_use": anthropic_types.ToolUseBlock,
    "server_tool_use": anthropic_types.ServerToolUseBlock,
}


def _anthropic_object(block: dict[str, Any]) -> Any:
    # The SDK builds its responses like this, without validation.
    block_class = _BLOCK_CLASSES.get(block["type"])
    return block if block_class is None else block_class.model_construct(**block)


# LangChain


def _langchain(item: Item) -> Any:
    if item.style == 6 and item.role in ("system", "user", "assistant", "tool"):
        return _chat(Item(item.role, item.parts, style=0, has_call_list=item.has_call_list))
    if item.role == "tool":
        part = item.parts[0]
        message = ToolMessage(
            content=_result_content(part), tool_call_id="x", artifact={"mark": part.mark}
        )
        message.tool_call_id = part.id
        return message
    texts = _texts(item)
    content: Any = ""
    if _is_one_text(texts) and item.style != 1:
        content = texts[0].mark
    elif texts:
        content = [_chat_block(part) for part in texts]
    if item.role == "user":
        return HumanMessage(content=content)
    if item.role == "system":
        return SystemMessage(content=content)
    if item.role != "assistant":
        return ("human", content)
    return _ai_message(item, content)


def _ai_message(item: Item, content: Any) -> Any:
    calls = [part for part in item.parts if part.kind == "call"]
    broken = [part for part in calls if isinstance(part.arguments, str)]
    fine = [part for part in calls if not isinstance(part.arguments, str)]
    message: Any = AIMessage(content=content, id=f"run-{item.style}")
    blocks = [content] if isinstance(content, str) else list(content)
    blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks if b]
    if item.style == 1:
        message.content = blocks + [
            {"type": "tool_use", "id": part.id, "name": part.name, "input": {}} for part in calls
        ]
    elif item.style in (2, 3):
        key, kind, field = (
            ("id", "tool_use", "input") if item.style == 2 else ("call_id", "function_call", "args")
        )
        message.content = blocks + [
            {"type": kind, key: part.id, "name": part.name, field: {}} for part in calls
        ]
        return message
    elif item.style == 4:
        message.additional_kwargs = {
            "tool_calls": [_function_call(part) for part in calls],
            "refusal": None,
        }
        return message
    elif item.style == 5:
        message.additional_kwargs = {"tool_calls": [_function_call(part) for part in calls]}
    elif item.style == 7 and not broken:
        message = AIMessageChunk(content=content, id="run-7")
        message.tool_call_chunks = [
            {"type": "tool_call_chunk", "id": part.id, "name": part.name, "args": "{}", "index": 0}
            for part in calls
        ]
    message.tool_calls = [
        {"type": "tool_call", "id": part.id, "name": part.name, "args": {"n": _number(part)}}
        for part in fine
    ]
    message.invalid_tool_calls = [
        {
            "type": "invalid_tool_call",
            "id": part.id,
            "name": part.name,
            "args": part.arguments,
            "error": "cut off",
        }
        for part in broken
    ]
    return message


# OpenAI Responses: every part is an item of its own


def _responses(role: str, part: Part, style: int) -> Any:
    if part.kind == "call":
        return _call_item(part, style)
    if part.kind == "result":
        return _output_item(part)
    if part.kind == "thinking":
        item = {"type": "reasoning", "id": f"rs_{part.mark}", "summary": []}
        return {**item, "encrypted_content": part.mark}
    if part.kind == "hosted":
        return {"type": part.name, "id": "h_1", "status": "completed"}
    if part.kind == "approval":
        return {"type": "mcp_approval_response", "approval_request_id": "h_1", "approve": True}
    role = "developer" if role == "system" and style == 3 else "user" if role == "tool" else role
    if part.kind == "image":
        content: Any = [{"type": "input_image", "image_url": f"https://example.org/{part.mark}"}]
        return {"type": "message", "role": "user", "content": content}
    if style % 2:
        return {"role": role, "content": part.mark}
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": part.mark, "annotations": []}]
    return {"type": "message", "role": role, "content": content}


def _call_item(part: Part, style: int) -> Any:
    item: dict[str, Any] = {"type": f"{part.family}_call", "call_id": part.id}
    if part.family == "function":
        arguments = part.arguments
        if arguments is None:
            arguments = json.dumps({"n": _number(part)}) if part.style else "{}"
        item |= {"name": part.name, "arguments": arguments}
        if part.style in (3, 9):
            item["id"] = "fc_1" if part.style == 3 else "call_1"
        if style >= 6:
            return responses_types.ResponseFunctionToolCall.model_construct(**item)
    elif part.family == "custom":
        item |= {"type": "custom_tool_call", "name": part.name, "input": f"free {part.name}, {{"}
    elif part.family == "apply_patch":
        item["operation"] = {"type": "delete_file", "path": part.name}
    else:
        item["action"] = {"commands": [part.name]}
    return item


def _output_item(part: Part) -> dict[str, Any]:
    item: dict[str, Any] = {"call_id": part.id, "output": part.mark}
    kind = "custom_tool_call" if part.family == "custom" else f"{part.family}_call"
    if part.family in ("function", "custom"):
        item["output"] = _result_content(part)
        if part.style == 4:
            item["output"] = [{"type": "input_text", "text": part.mark}]
    elif part.family == "local_shell":
        item = {"id": part.id, "output": part.mark}
    elif part.family == "shell":
        outcome = {"type": "exit", "exit_code": 0}
        item["output"] = [{"stdout": part.mark, "stderr": "", "outcome": outcome}]
    elif part.family == "apply_patch":
        item["status"] = "completed"
    else:
        item["output"] = {"type": "computer_screenshot", "image_url": part.mark}
    return {"type": f"{kind}_output", **item}


# Gemini

_CAMEL = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "thought_signature": "thoughtSignature",
    "inline_data": "inlineData",
    "mime_type": "mimeType",
    "executable_code": "executableCode",
}


def _gemini(item: Item) -> Any:
    role: str | None = {"assistant": "model", "tool": "user"}.get(item.role, item.role)
    is_snake, style = item.style >= 8, item.style % 8
    if role == "user" and style == 1:
        role = None
    if role == "user" and style == 2 and all(part.kind == "result" for part in item.parts):
        role = "function"
    if style == 3 and role == "user" and _is_one_text(item.parts) and item.parts[0].mark:
        return item.parts[0].mark
    parts: Any = [_gemini_part(part) for part in item.parts]
    if not is_snake:
        parts = [_camel(part) for part in parts]
    if is_snake and style >= 6 and (made := _gemini_object(role, parts)) is not None:
        return made
    if not parts and style == 4:
        parts = None
    content = {"parts": parts}
    return content if role is None else {"role": role, **content}


def _camel(part: dict[str, Any]) -> dict[str, Any]:
    return {
        _CAMEL.get(key, key): _camel(value) if key == "inline_data" else value
        for key, value in part.items()
    }


def _gemini_object(role: str | None, parts: list[Any]) -> Any:
    """Return a content of the SDK, None for what that refuses."""
    try:
        return gemini_types.Content.model_validate({"role": role, "parts": parts})
    except ValueError:
        return None


def _gemini_part(part: Part) -> dict[str, Any]:
    if part.kind in ("call", "result"):
        block: dict[str, Any] = {"name": part.name}
        if part.id is not None:
            block["id"] = part.id
        if part.kind == "result":
            block["response"] = {("error", "result", "output")[part.style % 3]: part.mark}
            if part.style == 5:
                block["response"] = {}
            return {"function_response": block}
        arguments = {"n": part.mark} if part.arguments is None else part.arguments
        call: dict[str, Any] = {"function_call": {**block, "args": arguments}}
        if part.is_signed:
            call["thought_signature"] = b"signed"
        return call
    if part.kind == "image":
        return {"inline_data": {"mime_type": "image/png", "data": part.mark.encode()}}
    if part.kind == "executed":
        return {"executable_code": {"code": part.mark, "language": "PYTHON"}}
    if part.kind == "thinking":
        return {"text": part.mark, "thought": True}
    return {"text": part.mark}


# Bedrock


def _bedrock(item: Item) -> Any:
    role = "user" if item.role == "tool" else item.role
    blocks: Any = [block for part in item.parts for block in _bedrock_blocks(part)]
    if not blocks and item.style == 4:
        blocks = None
    return {"role": role, "content": blocks}


def _bedrock_blocks(part: Part) -> list[dict[str, Any]]:
    if part.kind == "result":
        content: list[Any] = [] if part.style == 5 else [{"text": part.mark}]
        if part.style == 4:
            content = [{"json": {"value": part.mark}}]
        result = {"toolUseId": part.id, "content": content}
        if part.style == 3:
            result["status"] = "success"
        return [{"toolResult": result}]
    if part.kind == "call":
        arguments = part.arguments
        if arguments is None:
            arguments = {"n": _number(part)} if part.style else {}
        return [{"toolUse": {"toolUseId": part.id, "name": part.name, "input": arguments}}]
    if part.kind == "thinking":
        if part.style == 2:
            return [{"reasoningContent": {"redactedContent": part.mark.encode()}}]
        text = {"text": part.mark, "signature": "signed"}
        return [{"reasoningContent": {"reasoningText": text}}]
    if part.kind == "served":
        call = {"toolUseId": part.mark, "name": "nova_grounding", "input": {}}
        answer = {"toolUseId": part.mark, "content": [], "type": "nova_grounding_result"}
        return [{"toolUse": {**call, "type": "server_tool_use"}}, {"toolResult": answer}]
    if part.kind == "cache_point":
        return [{"cachePoint": {"type": "default"}}]
    if part.kind == "image":
        return [{"image": {"format": "png", "source": {"bytes": part.mark.encode()}}}]
    return [{"text": part.mark}]


RENDERERS: dict[str, Callable[[Item], Any]] = {
    CHAT: _chat,
    ANTHROPIC: _anthropic,
    LANGCHAIN: _langchain,
    GEMINI: _gemini,
    BEDROCK: _bedrock,
}
