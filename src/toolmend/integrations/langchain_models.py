"""LangChain's models: the history of each call mended, in agents and in chains."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from langchain_core.runnables import Runnable

from toolmend.formats.server_state import STATE_FIELDS
from toolmend.integrations.sdk_requests import Endpoint, Instrumentation, checked_instrumentation
from toolmend.telemetry.names import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from langchain_core.runnables import RunnableConfig

    from toolmend._run import OnRepair
    from toolmend.mending.policy import Policy
    from toolmend.settings import Spans, ThreadLabel

_MAX_BINDINGS: Final = 8
_MESSAGES: Final = Endpoint("messages", "langchain")
_FACTS: Final = (*STATE_FIELDS, "extra_body")
_PROVIDERS: Final = {
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_openai": "azure.ai.openai",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""Providers that LangChain names otherwise than OpenTelemetry's GenAI conventions."""


def send_mended(
    instrumentation: Instrumentation,
    model: object,
    messages: Any,
    send_with: Callable[[Any], Any],
    *,
    is_async: bool = False,
    config: object = None,
    settings: Iterable[Mapping[str, Any]] = (),
) -> Any:
    """Send messages to a model, mended.

    Args:
        instrumentation: how.
        model: the chat model, asked what it is called.
        messages: the history.
        send_with: sends a history; returns an awaitable where it is async.
        is_async: whether it does.
        config: of the call, where a thread may be named.
        settings: what else the request will say; it may continue a history on the provider's server.
    """
    provider, name = _named(model)
    send = instrumentation.sender(provider, _MESSAGES, is_async=is_async)
    facts = {
        field: given[field]
        for given in settings
        for field in _FACTS
        if given.get(field) is not None
    }
    return send(messages, **{**facts, "send_with": send_with, "model": name, "config": config})


def _named(model: object) -> tuple[str, str | None]:
    """Return provider and name of a model, as LangChain tells its own tracing."""
    try:
        told = model._get_ls_params()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        provider, name = told.get("ls_provider"), told.get("ls_model_name")
    except Exception:  # noqa: BLE001 - a model of any make; it is only a label
        return UNKNOWN, None
    known = provider if isinstance(provider, str) and provider else UNKNOWN
    return _PROVIDERS.get(known, known), name if isinstance(name, str) else None


class MendedModel(Runnable[Any, Any]):
    """A chat model that gets its history mended, for chains: ``prompt | MendedModel(model)``.

    Args:
        model: a chat model, with its tools already bound.
        policy: what to do about faults. ``TOOLMEND_MODE`` wins over its mode.
        spans: ``always``, ``repairs`` or ``never``; else as ``TOOLMEND_SPANS`` says.
        thread_label: ``"hash"`` keeps ids of conversations out of telemetry.
        on_repair: called with each ``Repair`` before the model call.

    Raises:
        PolicyError: an option that cannot work.
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        policy: Policy | None = None,
        spans: Spans | None = None,
        thread_label: ThreadLabel | None = None,
        on_repair: OnRepair | None = None,
    ) -> None:
        self.model = model
        self._instrumentation = checked_instrumentation(
            policy=policy, spans=spans, thread_label=thread_label, on_repair=on_repair
        )

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return the model's answer."""
        return self._send(
            input, config, lambda given: self.model.invoke(given, config, **kwargs), kwargs
        )

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return the model's answer."""
        return await self._send(
            input,
            config,
            lambda given: self.model.ainvoke(given, config, **kwargs),
            kwargs,
            is_async=True,
        )

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Iterator[Any]:
        """Yield the model's answer in pieces."""
        yield from self._send(
            input, config, lambda given: self.model.stream(given, config, **kwargs), kwargs
        )

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> AsyncIterator[Any]:
        """Yield the model's answer in pieces."""

        async def open_stream(given: Any) -> AsyncIterator[Any]:
            return self.model.astream(given, config, **kwargs)

        pieces = await self._send(input, config, open_stream, kwargs, is_async=True)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    def _send(
        self,
        input: Any,
        config: RunnableConfig | None,
        send_with: Callable[[Any], Any],
        kwargs: Mapping[str, Any],
        *,
        is_async: bool = False,
    ) -> Any:
        to_messages = getattr(input, "to_messages", None)  # what a prompt makes
        messages = input if to_messages is None else to_messages()
        model, bound = unbound(self.model)
        return send_mended(
            self._instrumentation,
            model,
            messages,
            send_with,
            is_async=is_async,
            config=config,
            settings=(*bound, kwargs),
        )


def unbound(model: Any) -> tuple[Any, list[Mapping[str, Any]]]:
    """Return the model behind what is bound to it, with the settings of both, the innermost first."""
    settings: list[Mapping[str, Any]] = []
    for _ in range(_MAX_BINDINGS):
        inner = getattr(model, "bound", None)
        if inner is None:
            break
        settings.insert(0, _mapping(getattr(model, "kwargs", None)))
        model = inner
    own = {"extra_body": getattr(model, "extra_body", None)}
    return model, [_mapping(getattr(model, "model_kwargs", None)), own, *settings]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
