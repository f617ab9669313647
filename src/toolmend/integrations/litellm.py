"""LiteLLM's proxy: mend the histories of every client behind it, whatever language it is written in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from toolmend._prepared import Options, Prepared
from toolmend._run import count_afresh, count_no_more
from toolmend.errors import BrokenHistoryError
from toolmend.integrations.litellm_requests import provider_of, session_of
from toolmend.mending.policy import Policy, checked_policy
from toolmend.telemetry.current_span import CurrentSpan
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import as_label
from toolmend.telemetry.model_call_facts import ModelCallFacts
from toolmend.telemetry.model_calls import count_rejection
from toolmend.telemetry.rejections import is_history_rejection

try:
    # No types for these where the package is checked, since it does not depend on LiteLLM.
    from fastapi import HTTPException  # type: ignore[import-not-found,unused-ignore]
    from litellm.integrations.custom_logger import (  # type: ignore[import-not-found,unused-ignore]
        CustomLogger,
    )
except ImportError as error:
    raise ImportError(
        "toolmend.integrations.litellm needs LiteLLM's proxy: pip install 'litellm[proxy]'",
        name=error.name,
    ) from error

_MAX_REMEMBERED: Final = 5_000
_BAD_REQUEST: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """Where requests of one kind come in: which key holds the history, and in which format."""

    key: str
    format: str


_CHAT: Final = _Door(key="messages", format="openai-chat")
_MESSAGES: Final = _Door(key="messages", format="anthropic")
_RESPONSES: Final = _Door(key="input", format="openai-responses")
_DOORS: Final = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "anthropic_messages": _MESSAGES,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
}
"""LiteLLM's call types. Everything else it serves carries no history, or one it never shows to hooks."""


class ToolmendCallback(CustomLogger):  # type: ignore[misc,unused-ignore]  # no types: see the import
    """A callback for ``litellm_settings.callbacks``; put it last, nearest to the model.

    It mends the history of `/chat/completions`, `/v1/messages` and `/v1/responses`, replaces it in the
    request and counts the call, once, however often the router tries. A request that goes on from a
    history on the provider's server is left as it is, apart from calls that it carries itself.

    The span ``toolmend.model_call`` covers the look at the history alone: LiteLLM's hook is over before
    the model is called. For the same reason it never tells of an error or a rejection; a provider that
    refuses the history all the same is counted and logged once LiteLLM gives up on the request.

    Args:
        policy: what to do about faults. ``TOOLMEND_MODE`` wins over its mode. Under ``raise`` the client
            gets a 400.

    Raises:
        PolicyError: the policy is none.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        policy = checked_policy(policy)
        super().__init__()
        prepared = {door: _prepared(door, policy) for door in set(_DOORS.values())}
        self._prepared = {call_type: prepared[door] for call_type, door in _DOORS.items()}
        self._under_way: OrderedDict[str, ModelCallFacts] = OrderedDict()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # LiteLLM calls only those hooks that stand in the leaf class itself.
        if "async_pre_call_hook" not in vars(cls):
            cls.async_pre_call_hook = cls.async_pre_call_hook  # type: ignore[method-assign]

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # LiteLLM's types, as everywhere below
        cache: Any,  # noqa: ARG002 - part of LiteLLM's signature
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any] | None:
        """Mend the history of a request, in ``data``.

        Raises:
            HTTPException: a 400, under ``mode="raise"``.
        """
        prepared = self._prepared.get(call_type)
        if prepared is None:
            return None
        with CurrentSpan(getattr(user_api_key_dict, "parent_otel_span", None)):
            count_afresh()
            run = prepared.begin((), data)
            if run is None:
                return None
            mended, report = run.kwargs, run.report
            if report is not None:
                with guard("telemetry"):
                    team = getattr(user_api_key_dict, "team_id", None)
                    report.facts.provider = as_label(provider_of(data.get("model"), team))
                    self._remember(data, report.facts)
            try:
                await run.tell_async()
            except BrokenHistoryError as error:
                raise HTTPException(status_code=_BAD_REQUEST, detail=str(error)) from error
            run.succeed()
            # LiteLLM's task goes on from here to the SDK, which may be instrumented.
            count_no_more()
        key = _DOORS[call_type].key
        if mended.get(key) is not data.get(key):
            data[key] = mended[key]
        return data

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,  # noqa: ARG002 - part of LiteLLM's signature
        traceback_str: str | None = None,  # noqa: ARG002 - the same
    ) -> None:
        """Count a request whose history the provider refused, after every retry and fallback."""
        with guard("telemetry"):
            facts = self._under_way.pop(request_data.get("litellm_call_id", ""), None)
            if facts is not None and is_history_rejection(original_exception):
                count_rejection(facts)

    def _remember(self, data: dict[str, Any], facts: ModelCallFacts) -> None:
        """Keep what a rejection is counted with; not the whole facts, which hold on to messages."""
        call_id = data.get("litellm_call_id")
        if not isinstance(call_id, str):
            return
        self._under_way[call_id] = ModelCallFacts(
            model=facts.model,
            provider=facts.provider,
            thread=facts.thread,
            format=facts.format,
            outcome=facts.outcome,
        )
        if len(self._under_way) > _MAX_REMEMBERED:
            # Those that went well are never taken out.
            self._under_way.popitem(last=False)


def _prepared(door: _Door, policy: Policy) -> Prepared:
    options = Options(
        messages=door.key,
        model=None,
        provider=None,
        thread=session_of,
        thread_label=None,
        format=door.format,
        policy=policy,
        on_repair=None,
    )
    return Prepared(options, _request)


def _request(**data: Any) -> Any:
    """Stand for the call that LiteLLM makes of a request, of which only the signature matters."""


callback: Final = ToolmendCallback()
"""Ready for `litellm_settings: {callbacks: toolmend.integrations.litellm.callback}`."""
