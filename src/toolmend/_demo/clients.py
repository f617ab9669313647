"""Clients: the SDKs of the providers where they are installed, else the standard library."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from toolmend._demo.answers import Answer, read_chat, read_message
from toolmend._demo.plain_http import PlainClient
from toolmend._demo.shapes import tool_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType

    from toolmend._demo.cast import Wire
    from toolmend.testing import StrictProvider

_MAX_TOKENS = 256


class Client(Protocol):
    """Asks the models of one provider."""

    async def ask(self, messages: list[object], *, model: str, place: str) -> object:
        """Return the provider's answer."""

    async def open_stream(
        self, messages: list[object], *, model: str, place: str
    ) -> AsyncIterator[object]:
        """Return the provider's answer as a stream."""

    def read(self, answer: Any) -> Answer:
        """Read what `ask` returned."""

    async def close(self) -> None:
        """Close the connections."""


class OpenAIClient:
    """The openai SDK."""

    def __init__(self, sdk: Any, base_url: str) -> None:
        # An HTTP proxy of the environment is no way to 127.0.0.1.
        self._client = sdk.AsyncOpenAI(
            base_url=base_url,
            api_key="demo",
            max_retries=0,
            http_client=sdk.DefaultAsyncHttpxClient(trust_env=False),
        )
        self._tools = tool_definitions("openai-chat")

    async def ask(self, messages: list[object], *, model: str, place: str) -> object:
        """Return a `ChatCompletion`."""
        return await self._client.chat.completions.create(
            model=model, messages=messages, tools=self._tools, user=place
        )

    async def open_stream(
        self, messages: list[object], *, model: str, place: str
    ) -> AsyncIterator[object]:
        """Return an `AsyncStream` of chunks."""
        stream: AsyncIterator[object] = await self._client.chat.completions.create(
            model=model, messages=messages, tools=self._tools, user=place, stream=True
        )
        return stream

    def read(self, answer: Any) -> Answer:
        """Read a `ChatCompletion`."""
        return read_chat(answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class AnthropicClient:
    """The anthropic SDK."""

    def __init__(self, sdk: Any, base_url: str) -> None:
        self._client = sdk.AsyncAnthropic(
            base_url=base_url,
            api_key="demo",
            max_retries=0,
            http_client=sdk.DefaultAsyncHttpxClient(trust_env=False),
        )
        self._tools = tool_definitions("anthropic")

    async def ask(self, messages: list[object], *, model: str, place: str) -> object:
        """Return a `Message`."""
        return await self._client.messages.create(
            model=model,
            max_tokens=_MAX_TOKENS,
            messages=messages,
            tools=self._tools,
            metadata={"user_id": place},
        )

    async def open_stream(
        self, messages: list[object], *, model: str, place: str
    ) -> AsyncIterator[object]:
        """Raise: nobody in the demo streams from here."""
        raise NotImplementedError

    def read(self, answer: Any) -> Answer:
        """Read a `Message`."""
        return read_message(answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def installed_sdks() -> dict[str, ModuleType]:
    """Return the SDKs by name; importing them takes a second or two the first time."""
    found = {}
    for name in ("openai", "anthropic"):
        with suppress(ImportError):
            found[name] = import_module(name)
    return found


def describe_clients(sdks: dict[str, ModuleType]) -> str:
    """Return how the models are reached, in a few words."""
    names = [f"{name} {version(name)}" for name in sdks]
    if len(names) < 2:  # noqa: PLR2004 - there are two providers
        missing = " or ".join(name for name in ("openai", "anthropic") if name not in sdks)
        names.append(f"plain HTTP (no {missing} SDK installed)")
    return ", ".join(names)


def open_clients(provider: StrictProvider, sdks: dict[str, ModuleType]) -> dict[Wire, Client]:
    """Return a client for each wire format.

    Args:
        provider: who answers.
        sdks: what `installed_sdks` returned.
    """
    chat: Client
    messages: Client
    if "openai" in sdks:
        chat = OpenAIClient(sdks["openai"], provider.openai_base_url)
    else:
        chat = PlainClient("openai-chat", provider.openai_base_url)
    if "anthropic" in sdks:
        messages = AnthropicClient(sdks["anthropic"], provider.anthropic_base_url)
    else:
        messages = PlainClient("anthropic", provider.anthropic_base_url)
    return {"openai-chat": chat, "anthropic": messages}
