"""Plain HTTP: posts the same bodies as the SDKs, with nothing but the standard library."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolmend._demo.answers import Answer, read_chat, read_message
from toolmend._demo.shapes import JsonObject, tool_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolmend._demo.cast import Wire

_BAD_REQUEST: Final = 400
_TIMEOUT_SECONDS: Final = 30.0
_MAX_TOKENS: Final = 256


class RequestRefusedError(Exception):
    """The provider refused a request.

    Attributes:
        status_code: the HTTP status.
    """

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class PlainClient:
    """A client of one provider.

    Args:
        wire: the format that the provider speaks.
        base_url: its address, as its SDK takes it.
    """

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = base_url + ("/chat/completions" if wire == "openai-chat" else "/v1/messages")

    async def ask(self, messages: list[object], *, model: str, place: str) -> object:
        """Return the body of the answer."""
        body = self._body(messages, model, place)
        return json.loads(await asyncio.to_thread(post, self._url, body))

    async def open_stream(
        self, messages: list[object], *, model: str, place: str
    ) -> AsyncIterator[object]:
        """Return the events of the answer."""
        body = {**self._body(messages, model, place), "stream": True}
        return _events(await asyncio.to_thread(post, self._url, body))

    def read(self, answer: Any) -> Answer:
        """Read the body of an answer."""
        return read_chat(answer) if self._wire == "openai-chat" else read_message(answer)

    async def close(self) -> None:
        """Do nothing: each request has a connection of its own."""

    def _body(self, messages: list[object], model: str, place: str) -> JsonObject:
        body: JsonObject = {"model": model, "messages": messages}
        body["tools"] = tool_definitions(self._wire)
        if self._wire == "openai-chat":
            return {**body, "user": place}
        return {**body, "max_tokens": _MAX_TOKENS, "metadata": {"user_id": place}}


def post(url: str, body: JsonObject) -> bytes:
    """Post JSON and return the body of the answer.

    Raises:
        RequestRefusedError: the status is 400 or more; its text is what the provider says.
    """
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)
    try:
        headers = {"content-type": "application/json", "connection": "close"}
        connection.request("POST", parts.path, json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status >= _BAD_REQUEST:
        raise RequestRefusedError(response.status, json.loads(answer)["error"]["message"])
    return answer


async def _events(stream: bytes) -> AsyncIterator[object]:
    for line in stream.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))
