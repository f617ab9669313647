"""Provider hosts: which provider a client talks to, told from the address of its requests."""

from __future__ import annotations

from typing import Any, Final

_HOSTS: Final = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}
"""Hosts, and the names of their providers in OpenTelemetry's GenAI conventions."""
_AWS: Final = (".amazonaws.com", ".api.aws")


def provider_at(client: Any) -> str | None:
    """Return the provider that a client's address belongs to; None for a host that nobody knows."""
    host = str(getattr(client.base_url, "host", ""))
    if host.startswith("bedrock") and host.endswith(_AWS):
        return "aws.bedrock"
    for known, provider in _HOSTS.items():
        # Vertex puts its region before the name with a dash, all others with a dot.
        if host == known or host.endswith((f".{known}", f"-{known}")):
            return provider
    return None
