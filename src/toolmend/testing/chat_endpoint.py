"""The endpoint of OpenAI Chat Completions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, cast

from toolmend.testing.endpoint import EVENT_STREAM, Refusal, estimate_tokens, halves, sse
from toolmend.testing.mistral import mistral_error_body, mistral_id, mistral_rejection
from toolmend.testing.openai_errors import openai_error_body
from toolmend.testing.strict import ANY_HOST, Allowance, Host, Problem, find_problems
from toolmend.testing.strict.chat_problems import COMPATIBLE_DANGLING
from toolmend.testing.strict.plain import as_items, as_mapping, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply

Flavour = Literal["openai", "compatible"]

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_CREATED = 1_767_225_600  # Answers carry no clock: two runs give the same bytes.


class ChatEndpoint:
    """`POST /v1/chat/completions`."""

    asks_model = True
    stream_type = EVENT_STREAM

    def __init__(self, flavour: Flavour, host: Host = ANY_HOST) -> None:
        self._flavour = flavour
        self._host = host

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with model, messages or roles."""
        if is_blank(body.get("model")):
            return Refusal(message="you must provide a model parameter")
        if body.get("messages") is None:
            text = "Missing required parameter: 'messages'."
            return Refusal(message=text, param="messages")
        messages = as_items(body["messages"])
        if messages is None:
            text = "Invalid type for 'messages': expected an array of objects."
            return Refusal(message=text, param="messages")
        if not messages:
            text = (
                "Invalid 'messages': empty array. Expected an array with minimum length 1, but got "
                "an empty array instead."
            )
            return Refusal(message=text, param="messages")
        for index, message in enumerate(messages):
            fields = as_mapping(message)
            if fields is None:
                text = f"Invalid type for 'messages[{index}]': expected an object."
                return Refusal(message=text, param=f"messages[{index}]")
            if fields.get("role") not in _ROLES:
                supported = ", ".join(f"'{role}'" for role in _ROLES[:-1]) + f", and '{_ROLES[-1]}'"
                text = f"Invalid value: '{fields.get('role')}'. Supported values are: {supported}."
                return Refusal(message=text, param=f"messages[{index}].role")
        return None

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the messages."""
        messages = as_items(body["messages"]) or ()
        return find_problems(messages, "openai-chat", Allowance(), self._host)

    def rejection(self, problem: Problem) -> Refusal:
        """Return the refusal, with the spelling of the flavour or of the host."""
        if self._host.profile == "mistral":
            return mistral_rejection(problem)
        if problem.kind == "dangling" and self._flavour == "compatible":
            return Refusal(message=COMPATIBLE_DANGLING)
        return Refusal(message=problem.message, param=problem.param)

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:  # noqa: ARG002
        """Return the request id."""
        return {"x-request-id": request_id}

    def wants_stream(self, body: JsonObject) -> bool:
        """Tell what the request says."""
        return body.get("stream") is True

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:  # noqa: ARG002
        """Return the error object of OpenAI, or of Mistral."""
        if self._host.profile == "mistral":
            return mistral_error_body(refusal)
        return openai_error_body(refusal)

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return a `chat.completion`."""
        message: JsonObject = {
            "role": "assistant",
            "content": reply.text or (None if reply.tool_calls else ""),
            "refusal": None,
        }
        calls: list[object] = [
            {
                "id": call.id or self._next_id(numbering),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for call in reply.tool_calls
        ]
        if calls:
            message["tool_calls"] = calls
        prompt, completion = estimate_tokens(body["messages"]), estimate_tokens(message)
        return {
            "id": numbering.next("chatcmpl"),
            "object": "chat.completion",
            "created": _CREATED,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": "tool_calls" if calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }

    def _next_id(self, numbering: Numbering) -> str:
        call_id = numbering.next("call")
        return mistral_id(call_id) if self._host.profile == "mistral" else call_id

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:
        """Yield the `chat.completion.chunk` events of an answer and `[DONE]`."""
        options = as_mapping(body.get("stream_options")) or {}
        usage = {"usage": None} if options.get("include_usage") else {}
        frame = {key: answer[key] for key in ("id", "created", "model")}
        frame["object"] = "chat.completion.chunk"
        choice = cast("list[JsonObject]", answer["choices"])[0]
        for delta, finish_reason in _deltas(choice):
            chunk = {
                "index": 0,
                "delta": delta,
                "logprobs": None,
                "finish_reason": finish_reason,
            }
            yield sse({**frame, "choices": [chunk], **usage})
        if usage:
            yield sse({**frame, "choices": [], "usage": answer["usage"]})
        yield b"data: [DONE]\n\n"


def _deltas(choice: JsonObject) -> Iterator[tuple[JsonObject, object]]:
    message = cast("JsonObject", choice["message"])
    yield {"role": "assistant", "content": "" if message["content"] is not None else None}, None
    for part in halves(str(message["content"] or "")):
        yield {"content": part}, None
    for position, call in enumerate(cast("list[JsonObject]", message.get("tool_calls", []))):
        function = cast("dict[str, str]", call["function"])
        head = {**call, "index": position, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [head]}, None
        for part in halves(function["arguments"]):
            tail = {"index": position, "function": {"arguments": part}}
            yield {"tool_calls": [tail]}, None
    yield {}, choice["finish_reason"]
