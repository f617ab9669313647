"""OpenAI: the request method of its clients, through which every call of a model goes.

``OpenAI.request`` and ``AsyncOpenAI.request`` see ``create``, ``stream``, ``parse``, raw responses, Azure and copies of
clients alike, once per call and before its retries.
"""

from __future__ import annotations

from typing import Any, Final

from toolmend.integrations.sdk_requests import Endpoint

MODULE: Final = "openai"
TARGETS: Final = (("openai", "OpenAI.request"), ("openai", "AsyncOpenAI.request"))
_RESPONSES: Final = Endpoint("input", "openai-responses")
ENDPOINTS: Final = {
    "/chat/completions": Endpoint("messages", "openai-chat"),
    "/responses": _RESPONSES,
    "/responses/compact": _RESPONSES,
    "/responses/input_tokens": Endpoint("input", "openai-responses", is_counted=False),
}
_PROVIDERS: Final = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}
"""Hosts that speak OpenAI's protocol, and their names in OpenTelemetry's GenAI conventions."""


def provider_of(client: Any) -> str:
    """Return the name of the provider that a client talks to; ``openai`` for a host that nobody knows."""
    if type(client).__name__.startswith(("Azure", "AsyncAzure")):
        return "azure.ai.openai"
    host = str(getattr(client.base_url, "host", ""))
    for known, provider in _PROVIDERS.items():
        if host == known or host.endswith(f".{known}"):
            return provider
    return "openai"
