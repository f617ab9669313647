"""What the strict provider needs to know about one API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply
    from toolmend.testing.strict import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused, history or not.

    Attributes:
        status: HTTP status, 400 or more.
        message: What the provider says.
        param: The parameter that OpenAI names; None where there is none.
        code: The error code of OpenAI and Mistral; None where there is none.
        kind: The error type of Mistral, where it is not the usual one.
    """

    status: int = 400
    message: str
    param: str | None = None
    code: str | None = None
    kind: str | None = None


class Endpoint(Protocol):
    """One API: its schema, its rules for histories, its bodies and its stream.

    Attributes:
        asks_model: Whether a legal request gets a reply of the model.
        stream_type: The media type of a stream.
    """

    asks_model: bool
    stream_type: str

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with the request apart from its history of tool calls."""

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the history in a request that passed `schema_fault`."""

    def rejection(self, problem: Problem) -> Refusal:
        """Return how the API refuses a history."""

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:
        """Return the headers of an answer: the id of the request, and what tells of an error."""

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:
        """Return an error in the shape of the API."""

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return the complete answer of the model."""

    def wants_stream(self, body: JsonObject) -> bool:
        """Tell whether the answer is to be streamed."""

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:
        """Yield the answer as the events of a stream."""


EVENT_STREAM = "text/event-stream; charset=utf-8"
"""The media type of server-sent events."""


def sse(data: JsonObject, *, event: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = "" if event is None else f"event: {event}\n"
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def estimate_tokens(value: object) -> int:
    """Return a plausible, reproducible token count: a quarter of the characters."""
    return 1 + len(str(value)) // 4


def halves(text: str) -> tuple[str, ...]:
    """Return a text in two parts, so that readers of a stream have to join them."""
    middle = len(text) // 2
    return tuple(part for part in (text[:middle], text[middle:]) if part)
