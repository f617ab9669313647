"""Which endpoint serves a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from toolmend.testing.bedrock_endpoint import BedrockEndpoint
from toolmend.testing.chat_endpoint import ChatEndpoint, Flavour
from toolmend.testing.gemini_endpoint import GeminiEndpoint
from toolmend.testing.messages_endpoint import CountTokensEndpoint, MessagesEndpoint
from toolmend.testing.responses_endpoint import ResponsesEndpoint

if TYPE_CHECKING:
    from toolmend.testing.endpoint import Endpoint
    from toolmend.testing.exchange import Request
    from toolmend.testing.strict import Host

_GEMINI = re.compile(r"/v1(?:alpha|beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")
_BEDROCK = re.compile(r"/model/[^/]+/(converse|converse-stream)")


class Routes:
    """The endpoints of one provider."""

    def __init__(self, flavour: Flavour, host: Host) -> None:
        self._host = host
        self._chat = ChatEndpoint(flavour, host)
        self._messages = MessagesEndpoint(host)
        self._responses = ResponsesEndpoint(host)
        self._fixed: dict[str, Endpoint] = {
            "/v1/chat/completions": self._chat,
            "/chat/completions": self._chat,
            "/v1/responses": self._responses,
            "/responses": self._responses,
            "/v1/messages": self._messages,
            "/v1/messages/count_tokens": CountTokensEndpoint(host),
        }

    def find(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path; None when there is none."""
        if gemini := _GEMINI.fullmatch(path):
            streams = gemini[2] == "streamGenerateContent"
            return GeminiEndpoint(unquote(gemini[1]), streams=streams, host=self._host)
        if bedrock := _BEDROCK.fullmatch(path):
            return BedrockEndpoint(streams=bedrock[1] == "converse-stream", host=self._host)
        return self._fixed.get(path)

    def likely(self, request: Request) -> Endpoint:
        """Return the endpoint whose errors a request to no endpoint expects."""
        path = request.path
        if "anthropic-version" in request.headers or path.startswith("/v1/messages"):
            return self._messages
        if re.match(r"/v1(?:alpha|beta)?/models/[^/:]+:", path) or path.startswith("/v1beta/"):
            return GeminiEndpoint(host=self._host)
        return BedrockEndpoint(host=self._host) if path.startswith("/model/") else self._chat
