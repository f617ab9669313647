"""The endpoints of Gemini."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from toolmend.testing.endpoint import EVENT_STREAM, Refusal, estimate_tokens, halves, sse
from toolmend.testing.strict import ANY_HOST, Allowance, Host, Problem, find_problems
from toolmend.testing.strict.plain import as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply

_ROLES = (None, "user", "model", "function", "tool")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiEndpoint:
    """`POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    asks_model = True
    stream_type = EVENT_STREAM

    def __init__(self, model: str = "", *, streams: bool = False, host: Host = ANY_HOST) -> None:
        self._model = model
        self._streams = streams
        self._host = host

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with contents or roles."""
        contents = as_items(body.get("contents"))
        if body.get("contents") is not None and contents is None:
            return Refusal(message="Invalid value at 'contents', expected a list")
        if not contents:
            text = "* GenerateContentRequest.contents: contents is not specified\n"
            return Refusal(message=text)
        for index, content in enumerate(contents):
            fields = as_mapping(content)
            if fields is None:
                return Refusal(message=f"Invalid value at 'contents[{index}]'")
            if fields.get("role") not in _ROLES:
                return Refusal(message="Please use a valid role: user, model.")
        return None

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the contents."""
        contents = as_items(body["contents"]) or ()
        return find_problems(contents, "gemini", Allowance(), self._host)

    def rejection(self, problem: Problem) -> Refusal:
        """Return the refusal."""
        return Refusal(message=problem.message)

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:  # noqa: ARG002
        """Return nothing but an id that the logs of Google would have."""
        return {"x-request-id": request_id}

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:  # noqa: ARG002
        """Return the error object of Google."""
        default = "INVALID_ARGUMENT" if refusal.status < 500 else "INTERNAL"  # noqa: PLR2004
        status = _STATUSES.get(refusal.status, default)
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def wants_stream(self, body: JsonObject) -> bool:  # noqa: ARG002
        """Tell what the path says."""
        return self._streams

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return a `GenerateContentResponse`."""
        parts: list[object] = []
        if reply.text or not reply.tool_calls:
            parts.append({"text": reply.text})
        parts.extend(
            {
                "functionCall": {
                    "id": call.id or numbering.next("call"),
                    "name": call.name,
                    "args": dict(call.arguments),
                }
            }
            for call in reply.tool_calls
        )
        prompt, completion = estimate_tokens(body["contents"]), estimate_tokens(parts)
        return {
            **self._frame(parts, numbering.next("resp"), is_last=True),
            "usageMetadata": {
                "promptTokenCount": prompt,
                "candidatesTokenCount": completion,
                "totalTokenCount": prompt + completion,
            },
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:  # noqa: ARG002
        """Yield the answer in pieces; a function call is never divided."""
        (candidate,) = cast("list[JsonObject]", answer["candidates"])
        content = cast("JsonObject", candidate["content"])
        pieces: list[JsonObject] = []
        for part in cast("list[JsonObject]", content["parts"]):
            texts = halves(str(part["text"])) if "text" in part else ()
            pieces.extend([{"text": text} for text in texts] or [part])
        response_id = str(answer["responseId"])
        for piece in pieces[:-1]:
            yield sse(self._frame([piece], response_id, is_last=False))
        last = self._frame(pieces[-1:], response_id, is_last=True)
        yield sse({**last, "usageMetadata": answer["usageMetadata"]})

    def _frame(self, parts: object, response_id: str, *, is_last: bool) -> JsonObject:
        candidate: JsonObject = {"content": {"role": "model", "parts": parts}, "index": 0}
        if is_last:
            candidate["finishReason"] = "STOP"
        return {
            "candidates": [candidate],
            "modelVersion": self._model,
            "responseId": response_id,
        }
