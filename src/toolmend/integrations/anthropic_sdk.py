"""Anthropic: the request method of its clients, and a middleware as the explicit way.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` see ``create``, ``stream``, beta, the tool runner, and the
clients for Bedrock, Vertex and Foundry, which are no subclasses of ``Anthropic``.
"""

from __future__ import annotations

from typing import Any, Final

from toolmend.integrations.provider_hosts import provider_at
from toolmend.integrations.sdk_requests import Endpoint

MODULE: Final = "anthropic"
REQUESTS: Final = (
    ("anthropic._base_client", "SyncAPIClient.request"),
    ("anthropic._base_client", "AsyncAPIClient.request"),
)
BUILDERS: Final = ()  # No other instrumentation wraps those methods.
_MESSAGES: Final = Endpoint("messages", "anthropic")
_TOKENS: Final = Endpoint("messages", "anthropic", is_counted=False)
ENDPOINTS: Final = {
    "/v1/messages": _MESSAGES,
    "/v1/messages/count_tokens": _TOKENS,
}
_PLATFORMS: Final = (("Bedrock", "aws.bedrock"), ("Vertex", "gcp.vertex_ai"))


def provider_of(client: Any) -> str:
    """Return the name of the provider that a client talks to; ``anthropic`` for a host that nobody knows."""
    name = type(client).__name__
    for mark, provider in _PLATFORMS:
        if mark in name:
            return provider
    return MODULE if "Foundry" in name else provider_at(client) or MODULE
