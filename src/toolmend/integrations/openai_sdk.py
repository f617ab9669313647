"""OpenAI: the request method of its clients, through which every call of a model goes.

``OpenAI.request`` and ``AsyncOpenAI.request`` see ``create``, ``stream``, ``parse``, raw responses, Azure and copies of
clients alike, once per call and before its retries. OpenInference wraps the same methods and, when it goes, puts back what
it found there; so each attempt is looked at once more where it becomes an HTTP request.
"""

from __future__ import annotations

from typing import Any, Final

from toolmend.integrations.provider_hosts import provider_at
from toolmend.integrations.sdk_requests import Endpoint

MODULE: Final = "openai"
REQUESTS: Final = (("openai", "OpenAI.request"), ("openai", "AsyncOpenAI.request"))
BUILDERS: Final = (("openai", "OpenAI._build_request"), ("openai", "AsyncOpenAI._build_request"))
"""Called for each attempt of each request, with a copy of its options."""
_RESPONSES: Final = Endpoint("input", "openai-responses")
ENDPOINTS: Final = {
    "/chat/completions": Endpoint("messages", "openai-chat"),
    "/responses": _RESPONSES,
    "/responses/compact": _RESPONSES,
    "/responses/input_tokens": Endpoint("input", "openai-responses", is_counted=False),
}


def provider_of(client: Any) -> str:
    """Return the name of the provider that a client talks to; ``openai`` for a host that nobody knows."""
    if "Azure" in type(client).__name__:
        return "azure.ai.openai"
    return provider_at(client) or MODULE
