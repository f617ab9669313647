"""The endpoints of Bedrock Converse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from toolmend.testing.aws_events import AWS_EVENT_STREAM, aws_event
from toolmend.testing.endpoint import Refusal, estimate_tokens, halves
from toolmend.testing.strict import ANY_HOST, Allowance, Host, Problem, find_problems
from toolmend.testing.strict.plain import as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply

_ROLES = ("user", "assistant")
_ERROR_TYPES = {
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_LATENCY_MS = 1  # Answers carry no clock: two runs give the same bytes.


class BedrockEndpoint:
    """`POST /model/MODEL/converse` and `/converse-stream`."""

    asks_model = True
    stream_type = AWS_EVENT_STREAM

    def __init__(self, *, streams: bool = False, host: Host = ANY_HOST) -> None:
        self._streams = streams
        self._host = host

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with messages or roles."""
        messages = as_items(body.get("messages"))
        if body.get("messages") is not None and messages is None:
            return Refusal(message="The value at messages is invalid. Provide a list.")
        if not messages:
            text = (
                "A conversation must start with a user message. Try again with a conversation that "
                "starts with a user message."
            )
            return Refusal(message=text)
        for index, message in enumerate(messages):
            fields = as_mapping(message)
            if fields is None:
                return Refusal(message=f"The value at messages.{index} is invalid.")
            if fields.get("role") not in _ROLES:
                path = f"messages.{index + 1}.member.role"
                text = (
                    f"1 validation error detected: Value at '{path}' failed to satisfy constraint: "
                    "Member must satisfy enum value set: [user, assistant]"
                )
                return Refusal(message=text)
        return None

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the messages."""
        messages = as_items(body["messages"]) or ()
        return find_problems(messages, "bedrock", Allowance(), self._host)

    def rejection(self, problem: Problem) -> Refusal:
        """Return the refusal."""
        return Refusal(message=problem.message)

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:
        """Return the request id, and the exception that an error is."""
        headers = {"x-amzn-requestid": request_id}
        if refusal is not None:
            is_fault = refusal.status < 500  # noqa: PLR2004 - of the client
            default = "ValidationException" if is_fault else "InternalServerException"
            headers["x-amzn-errortype"] = _ERROR_TYPES.get(refusal.status, default)
        return headers

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:  # noqa: ARG002
        """Return the error object of AWS; the header names the exception."""
        return {"message": refusal.message}

    def wants_stream(self, body: JsonObject) -> bool:  # noqa: ARG002
        """Tell what the path says."""
        return self._streams

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return a `ConverseResponse`."""
        content: list[object] = []
        if reply.text or not reply.tool_calls:
            content.append({"text": reply.text})
        content.extend(
            {
                "toolUse": {
                    "toolUseId": call.id or numbering.next("tooluse"),
                    "name": call.name,
                    "input": dict(call.arguments),
                }
            }
            for call in reply.tool_calls
        )
        prompt, completion = estimate_tokens(body["messages"]), estimate_tokens(content)
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use" if reply.tool_calls else "end_turn",
            "usage": {
                "inputTokens": prompt,
                "outputTokens": completion,
                "totalTokens": prompt + completion,
            },
            "metrics": {"latencyMs": _LATENCY_MS},
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:  # noqa: ARG002
        """Yield the events from `messageStart` to `metadata`."""
        yield aws_event("messageStart", {"role": "assistant"})
        output = cast("dict[str, JsonObject]", answer["output"])
        for index, block in enumerate(cast("list[JsonObject]", output["message"]["content"])):
            yield from _block_events(index, block)
        yield aws_event("messageStop", {"stopReason": answer["stopReason"]})
        yield aws_event("metadata", {"usage": answer["usage"], "metrics": answer["metrics"]})


def _block_events(index: int, block: JsonObject) -> Iterator[bytes]:
    place = {"contentBlockIndex": index}
    if "text" in block:
        deltas: list[JsonObject] = [{"text": part} for part in halves(str(block["text"]))]
    else:
        call = cast("JsonObject", block["toolUse"])
        start = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
        yield aws_event("contentBlockStart", {"start": start, **place})
        parts = halves(json.dumps(call["input"]))
        deltas = [{"toolUse": {"input": part}} for part in parts]
    for delta in deltas:
        yield aws_event("contentBlockDelta", {"delta": delta, **place})
    yield aws_event("contentBlockStop", place)
