"""Anthropic's own middleware: one line where a client is made.

::

    client = anthropic.Anthropic(middleware=[ToolmendMiddleware()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolmend.integrations.anthropic_sdk import ENDPOINTS
from toolmend.integrations.sdk_requests import (
    Endpoint,
    Instrumentation,
    SdkCall,
    checked_instrumentation,
    send_mended,
)
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import as_label
from toolmend.telemetry.model_call_facts import ModelCallFacts
from toolmend.telemetry.model_calls import count_rejection
from toolmend.telemetry.rejections import is_history_rejection

try:
    from anthropic import APIRequest, Middleware
except ImportError as error:
    raise ImportError(
        "toolmend.integrations.anthropic needs anthropic 1 or newer: pip install 'anthropic>=1'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolmend._run import OnRepair
    from toolmend.mending.policy import Policy
    from toolmend.settings import Spans, ThreadLabel

_BAD_REQUEST: Final = 400
_RETRIED: Final = {
    path: Endpoint(endpoint.key, endpoint.format, is_counted=False)
    for path, endpoint in ENDPOINTS.items()
}
"""The SDK sends a request again through the middleware: it is mended again, and counted no more."""


class _RefusedError(Exception):
    """The provider answered 400, which the SDK has not raised yet."""

    __qualname__ = "BadRequestError"  # what telemetry calls it, as it does where the SDK raised it

    def __init__(self, response: Any, text: str) -> None:
        super().__init__(text)
        self.status_code = _BAD_REQUEST
        self.answer = response


class ToolmendMiddleware(Middleware):
    """Mends the history of every request of a client; put it last, nearest to the provider.

    The span covers a request up to its response; a stream goes on behind it.

    Args:
        policy: what to do about faults. ``TOOLMEND_MODE`` wins over its mode.
        spans: ``always``, ``repairs`` or ``never``; else as ``TOOLMEND_SPANS`` says.
        thread_label: ``"hash"`` keeps ids of conversations out of telemetry.
        on_repair: called with each ``Repair`` before the request is sent.

    Raises:
        PolicyError: an option that cannot work.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        spans: Spans | None = None,
        thread_label: ThreadLabel | None = None,
        on_repair: OnRepair | None = None,
    ) -> None:
        self._instrumentation: Instrumentation = checked_instrumentation(
            policy=policy, spans=spans, thread_label=thread_label, on_repair=on_repair
        )

    def handle(self, request: APIRequest, call_next: Callable[[APIRequest], Any]) -> Any:
        """Mend and send a request of a sync client."""

        def send(_: object, options: Any) -> Any:
            response = call_next(_with_options(request, options))
            if response.status_code == _BAD_REQUEST:
                response.http_response.read()
                raise _refused(request, options, response)
            return response

        try:
            return self._send(send, request, is_async=False)
        except _RefusedError as refused:
            return refused.answer

    async def handle_async(
        self, request: APIRequest, call_next: Callable[[APIRequest], Awaitable[Any]]
    ) -> Any:
        """Mend and send a request of an async client."""

        async def send(_: object, options: Any) -> Any:
            response = await call_next(_with_options(request, options))
            if response.status_code == _BAD_REQUEST:
                await response.http_response.aread()
                raise _refused(request, options, response)
            return response

        try:
            return await self._send(send, request, is_async=True)
        except _RefusedError as refused:
            return refused.answer

    def _send(self, send: Callable[..., Any], request: APIRequest, *, is_async: bool) -> Any:
        endpoints = _RETRIED if request.retries_taken else ENDPOINTS
        call = SdkCall(send, (request.cast_to, request.options), {}, is_async=is_async)
        return send_mended(call, self._instrumentation, endpoints, "anthropic")


def _refused(request: APIRequest, options: Any, response: Any) -> _RefusedError:
    """Return the refusal; of a request sent again it is told here, since nobody counts that one."""
    error = _RefusedError(response, response.http_response.text)
    if request.retries_taken and is_history_rejection(error):
        with guard("telemetry"):
            body = options.json_data
            facts = ModelCallFacts(
                model=as_label(body.get("model") if isinstance(body, dict) else None),
                provider="anthropic",
                format="anthropic",
                outcome="clean" if options is request.options else "repaired",
            )
            count_rejection(facts)
    return error


def _with_options(request: APIRequest, options: Any) -> APIRequest:
    """Return a request with another body; its own copy() would copy the whole history deeply."""
    if options is request.options:
        return request
    return APIRequest(
        options=options,
        cast_to=request.cast_to,
        stream=request.stream,
        stream_cls=request.stream_cls,
        retries_taken=request.retries_taken,
    )
