"""The endpoint of Anthropic Messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from toolmend.testing.endpoint import EVENT_STREAM, Refusal, estimate_tokens, halves, sse
from toolmend.testing.strict import ANY_HOST, Allowance, Host, Problem, find_problems
from toolmend.testing.strict.plain import as_items, as_mapping, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply

_ROLES = ("user", "assistant", "system")
_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessagesEndpoint:
    """`POST /v1/messages`."""

    asks_model = True
    stream_type = EVENT_STREAM

    def __init__(self, host: Host = ANY_HOST) -> None:
        self._host = host

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with model, max_tokens, messages, roles or content."""
        if is_blank(body.get("model")):
            return Refusal(message="model: Field required")
        max_tokens = body.get("max_tokens")
        if max_tokens is None:
            return Refusal(message="max_tokens: Field required")
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
            return Refusal(message="max_tokens: Input should be greater than or equal to 1")
        return self.messages_fault(body)

    def messages_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with messages, roles or content."""
        if body.get("messages") is None:
            return Refusal(message="messages: Field required")
        messages = as_items(body["messages"])
        if messages is None:
            return Refusal(message="messages: Input should be a valid list")
        if not messages:
            return Refusal(message="messages: at least one message is required")
        for index, message in enumerate(messages):
            fields = as_mapping(message)
            if fields is None:
                return Refusal(message=f"messages.{index}: Input should be an object")
            if fields.get("role") not in _ROLES:
                text = "Input should be 'user', 'assistant' or 'system'"
                return Refusal(message=f"messages.{index}.role: {text}")
            content = fields.get("content")
            if not isinstance(content, str) and as_items(content) is None:
                text = "Field required" if content is None else "Input should be a valid list"
                return Refusal(message=f"messages.{index}.content: {text}")
        return None

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the messages."""
        messages = as_items(body["messages"]) or ()
        return find_problems(messages, "anthropic", Allowance(), self._host)

    def rejection(self, problem: Problem) -> Refusal:
        """Return the refusal."""
        return Refusal(message=problem.message)

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:  # noqa: ARG002
        """Return the request id."""
        return {"request-id": request_id}

    def wants_stream(self, body: JsonObject) -> bool:
        """Tell what the request says."""
        return body.get("stream") is True

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:
        """Return the error object of Anthropic."""
        default = "invalid_request_error" if refusal.status < 500 else "api_error"  # noqa: PLR2004
        error = {
            "type": _ERROR_TYPES.get(refusal.status, default),
            "message": refusal.message,
        }
        return {"type": "error", "error": error, "request_id": request_id}

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return a `message`."""
        content: list[object] = [{"type": "text", "text": reply.text}] if reply.text else []
        content.extend(
            {
                "type": "tool_use",
                "id": call.id or numbering.next("toolu"),
                "name": call.name,
                "input": dict(call.arguments),
            }
            for call in reply.tool_calls
        )
        return {
            "id": numbering.next("msg"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": estimate_tokens(body["messages"]),
                "output_tokens": estimate_tokens(content),
            },
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:  # noqa: ARG002
        """Yield the events from `message_start` to `message_stop`."""
        usage = cast("dict[str, int]", answer["usage"])
        start = {
            **answer,
            "content": [],
            "stop_reason": None,
            "usage": {**usage, "output_tokens": 1},
        }
        yield _event("message_start", {"message": start})
        for index, block in enumerate(cast("list[JsonObject]", answer["content"])):
            yield from _block_events(index, block)
        ending = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        tokens = {"output_tokens": usage["output_tokens"]}
        yield _event("message_delta", {"delta": ending, "usage": tokens})
        yield _event("message_stop", {})


class CountTokensEndpoint(MessagesEndpoint):
    """`POST /v1/messages/count_tokens`: the same rules, but a number for an answer."""

    asks_model = False

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with model, messages, roles or content."""
        if is_blank(body.get("model")):
            return Refusal(message="model: Field required")
        return self.messages_fault(body)

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:  # noqa: ARG002
        """Return the token count of the messages."""
        return {"input_tokens": estimate_tokens(body["messages"])}


def _block_events(index: int, block: JsonObject) -> Iterator[bytes]:
    if block["type"] == "text":
        empty: JsonObject = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in halves(str(block["text"]))]
    else:
        empty = {**block, "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": part}
            for part in halves(json.dumps(block["input"]))
        ]
    yield _event("content_block_start", {"index": index, "content_block": empty})
    for delta in deltas:
        yield _event("content_block_delta", {"index": index, "delta": delta})
    yield _event("content_block_stop", {"index": index})


def _event(kind: str, data: JsonObject) -> bytes:
    return sse({"type": kind, **data}, event=kind)
