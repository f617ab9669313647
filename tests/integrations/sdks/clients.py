"""Clients of the SDKs that end at a wire, by name; each sync or async."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

if TYPE_CHECKING:
    from tests.integrations.sdks.wire import Wire

OPENAI = ("OpenAI", "AsyncOpenAI")
ANTHROPIC = ("Anthropic", "AsyncAnthropic")
ARGUMENTS: dict[str, dict[str, Any]] = {
    "OpenAI": {"api_key": "test", "base_url": "https://api.openai.com/v1"},
    "AzureOpenAI": {
        "api_key": "test",
        "api_version": "2025-01-01",
        "azure_endpoint": "https://example.openai.azure.com",
    },
    "BedrockOpenAI": {"api_key": "test", "aws_region": "us-east-1"},
    "Anthropic": {"api_key": "test"},
    "AnthropicBedrock": {
        "aws_access_key": "a",
        "aws_secret_key": "b",
        "aws_region": "us-east-1",
    },
    "AnthropicVertex": {"region": "us-east5", "project_id": "p", "access_token": "test"},
    "AnthropicFoundry": {"api_key": "test", "resource": "r"},
    "AnthropicBedrockMantle": {"api_key": "test", "aws_region": "us-east-1"},
    "AnthropicAWS": {"api_key": "test", "aws_region": "us-east-1", "workspace_id": "w"},
    "AnthropicGoogleCloud": {
        "skip_auth": True,
        "location": "us-east5",
        "project": "p",
        "workspace_id": "w",
    },
}
PLATFORMS = {
    "AzureOpenAI": "azure.ai.openai",
    "BedrockOpenAI": "aws.bedrock",
    "AnthropicBedrock": "aws.bedrock",
    "AnthropicBedrockMantle": "aws.bedrock",
    "AnthropicVertex": "gcp.vertex_ai",
    "AnthropicFoundry": "anthropic",
    "AnthropicAWS": "anthropic",
    "AnthropicGoogleCloud": "anthropic",
}
"""Clients for platforms, and the provider that telemetry names."""


def is_async(name: str) -> bool:
    return name.startswith("Async")


def sdk_of(name: str) -> Any:
    return openai if "OpenAI" in name else anthropic


def make_client(name: str, wire: Wire, **options: Any) -> Any:
    """Make a client; skips where the SDK, or what it needs for a platform, is not there."""
    sdk = sdk_of(name)
    kind = getattr(sdk, name, None)
    if kind is None:
        pytest.skip(f"{sdk.__name__} {sdk.__version__} has no {name}")
    arguments = {"max_retries": 0, **ARGUMENTS[name.removeprefix("Async")], **options}
    try:
        return kind(http_client=wire.client(sdk, is_async=is_async(name)), **arguments)
    except ImportError as error:
        pytest.skip(f"{name} cannot be made here: {error}")
