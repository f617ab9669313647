"""What LiteLLM's proxy knows of a request before it is sent: the session, and the provider of its model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "vertex_ai_beta": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""LiteLLM's names of providers that OpenTelemetry's GenAI conventions name otherwise."""
_GATEWAYS: Final = ("litellm_proxy",)
"""What LiteLLM calls a provider, and is none: who serves the model stands behind it."""
_SESSION_HEADER: Final = "x-litellm-session-id"
_GENERATED: Final = "litellm_session_id_generated"


def session_of(data: Mapping[str, Any]) -> str | None:
    """Return the session that the client named; never one that LiteLLM made up for it."""
    request = data.get("proxy_server_request")
    headers = request.get("headers") if isinstance(request, Mapping) else None
    # LiteLLM lets `x-litellm-trace-id` win over the session, so the header itself is asked first.
    named = headers.get(_SESSION_HEADER) if isinstance(headers, Mapping) else None
    places = [place for place in map(data.get, ("metadata", "litellm_metadata")) if place]
    metadata = [place for place in places if isinstance(place, Mapping)]
    if not named and any(place.get(_GENERATED) for place in metadata):
        return None
    found = [named, *(place.get("session_id") for place in metadata)]
    found.append(data.get("litellm_session_id"))
    return next((session for session in found if isinstance(session, str) and session), None)


def provider_of(model: object, team: object) -> str | None:
    """Return the provider that serves a model name; None where nobody knows, or where several do."""
    server = sys.modules.get("litellm.proxy.proxy_server")
    router = getattr(server, "llm_router", None)
    if router is None or not isinstance(model, str):
        return None
    deployments = router.get_model_list(model_name=model, team_id=team) or ()
    providers = {_provider(deployment.get("litellm_params") or {}) for deployment in deployments}
    return providers.pop() if len(providers) == 1 else None


def _provider(params: Mapping[str, Any]) -> str | None:
    litellm = sys.modules["litellm"]
    model = str(params.get("model", ""))
    named = params.get("custom_llm_provider")
    if not named and "/" in model:
        prefix = model.split("/", 1)[0]
        named = prefix if prefix in litellm.provider_list else None
    elif not named and model in litellm.model_list_set:
        # Asked about known models alone: about any other it prints.
        named = litellm.get_llm_provider(model)[1]
    if not named or named in _GATEWAYS:
        return None
    return _PROVIDERS.get(named, str(named))
