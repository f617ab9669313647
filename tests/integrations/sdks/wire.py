"""The wire: every request that an SDK sends is kept byte by byte and judged by the strict provider."""

from __future__ import annotations

import importlib
import json
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolmend.testing import Reply, StrictProvider, problems
from toolmend.testing.exchange import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

PLATFORM_PATH = re.compile(r"/model[s]?/([^/:]+)[/:](?:invoke|rawPredict|streamRawPredict)")
HISTORY = {"/v1/messages": "messages", "/v1/chat/completions": "messages", "/v1/responses": "input"}
FORMATS = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
}
ANSWERS_BELOW = {
    "/input_tokens": {"object": "response.input_tokens", "input_tokens": 7},
    "/compact": {"object": "response.compaction", "id": "r", "created_at": 1, "output": []},
}
"""Endpoints that the strict provider lacks: judged as the one above them."""


@dataclass(frozen=True)
class Sent:
    """One request, and the status of its answer."""

    path: str
    content: bytes
    headers: dict[str, str]
    status: int

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.content)


@dataclass
class Wire:
    """What the clients of a test send, and to whom; nothing leaves the process.

    Attributes:
        reply: what the strict provider replies.
        failures: statuses that are answered first, before anybody looks at a request.
        sent: all requests so far.
    """

    reply: Callable[[dict[str, Any], str], Reply] | None = None
    failures: list[int] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._provider = StrictProvider(self.reply)
        self._lock = threading.Lock()

    @property
    def statuses(self) -> list[int]:
        return [sent.status for sent in self.sent]

    @property
    def contents(self) -> list[bytes]:
        return [sent.content for sent in self.sent]

    def history(self, index: int = -1) -> Any:
        """Return the history of a request as it went out."""
        body = self.sent[index].body
        return body["messages"] if "messages" in body else body["input"]

    def client(self, sdk: ModuleType, *, is_async: bool) -> Any:
        """Return an HTTP client for an SDK that ends here."""
        base = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
        library = importlib.import_module(base.__mro__[1].__module__.partition(".")[0])

        def handle(request: Any) -> Any:
            answer = self._take(request.url.path, request.read(), dict(request.headers))
            content = b"".join(answer.events) or json.dumps(answer.body).encode()
            kind = answer.stream_type if answer.events else "application/json"
            headers = {"content-type": kind, "retry-after-ms": "1", **answer.headers}
            return library.Response(answer.status, headers=headers, content=content)

        async def handle_async(request: Any) -> Any:
            await request.aread()
            return handle(request)

        if is_async:
            return library.AsyncClient(transport=library.MockTransport(handle_async))
        return library.Client(transport=library.MockTransport(handle))

    def _take(self, path: str, content: bytes, headers: dict[str, str]) -> Response:
        with self._lock:
            status = self.failures.pop(0) if self.failures else 0
        if status:
            error = {"message": "try again", "type": "api_error"}
            answer = Response(status=status, body={"type": "error", "error": error}, headers={})
        else:
            answer = self._judged(path, json.loads(content))
        with self._lock:
            self.sent.append(Sent(path, content, headers, answer.status))
        return answer

    def _judged(self, path: str, body: dict[str, Any]) -> Response:
        """Ask the strict provider, in whose place any platform may stand."""
        known, below = _endpoint(path)
        if model := PLATFORM_PATH.search(path):
            streams = path.endswith(":streamRawPredict")
            body = {"model": model[1], "stream": streams, **body}
        if _continues(body):
            if problems(body[HISTORY[known]], format=FORMATS[known], server_state=True):
                return Response(status=400, body={"error": {"message": "broken"}}, headers={})
            body = {
                "model": "m",
                "max_tokens": 9,
                HISTORY[known]: [{"role": "user", "content": "go"}],
            }
        at = known + below if below == "/count_tokens" else known
        request = Request(method="POST", path=at, headers={}, raw_body=json.dumps(body).encode())
        answer = self._provider._answer(request)
        if answer.status < 300 and below in ANSWERS_BELOW:
            return Response(status=200, body=ANSWERS_BELOW[below], headers={})
        return answer


def _endpoint(path: str) -> tuple[str, str]:
    """Return the endpoint that a path leads to, and what stands below it."""
    if PLATFORM_PATH.search(path):
        return "/v1/messages", ""
    for known in HISTORY:
        _, found, below = path.rpartition(known.removeprefix("/v1"))
        if found:
            return known, below
    raise AssertionError(path)


def _continues(body: dict[str, Any]) -> bool:
    thread = body.get("thread") or {}
    return (
        thread.get("type") == "continue" or "conversation" in body or "previous_response_id" in body
    )
