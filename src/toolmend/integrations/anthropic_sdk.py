"""Anthropic: the request method of its clients, and a middleware as the explicit way.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` see ``create``, ``stream``, beta, the tool runner, and the
clients for Bedrock, Vertex and Foundry, which are no subclasses of ``Anthropic``.
"""

from __future__ import annotations

from typing import Any, Final

from toolmend.integrations.sdk_requests import Endpoint

MODULE: Final = "anthropic"
TARGETS: Final = (
    ("anthropic._base_client", "SyncAPIClient.request"),
    ("anthropic._base_client", "AsyncAPIClient.request"),
)
_MESSAGES: Final = Endpoint("messages", "anthropic")
_TOKENS: Final = Endpoint("messages", "anthropic", is_counted=False)
ENDPOINTS: Final = {
    "/v1/messages": _MESSAGES,
    "/v1/messages/count_tokens": _TOKENS,
}
_PROVIDERS: Final = (("Bedrock", "aws.bedrock"), ("Vertex", "gcp.vertex_ai"))


def provider_of(client: Any) -> str:
    """Return the name of the provider that a client talks to."""
    name = type(client).__name__
    return next((provider for mark, provider in _PROVIDERS if mark in name), "anthropic")
