"""Anthropic's own middleware: one line where a client is made.

::

    client = anthropic.Anthropic(middleware=[ToolmendMiddleware()])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolmend._run import outermost_run
from toolmend._threads import as_id, current_thread
from toolmend.integrations.anthropic_sdk import ENDPOINTS
from toolmend.integrations.sdk_requests import (
    Instrumentation,
    SdkCall,
    checked_instrumentation,
    find_endpoint,
    send_mended,
    uncounted,
)
from toolmend.settings import settings
from toolmend.telemetry.baggage import thread_from_baggage
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import as_label
from toolmend.telemetry.model_call_facts import ModelCallFacts
from toolmend.telemetry.model_calls import count_rejection
from toolmend.telemetry.rejections import is_history_rejection
from toolmend.telemetry.thread_labels import thread_label

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
_TOLD: Final = "toolmend.rejection"
_RETRIED: Final = uncounted(ENDPOINTS)
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
            if not _is_refusal(response):
                return response
            try:
                response.http_response.read()
                text = response.http_response.text
            except Exception:  # noqa: BLE001 - closed by another middleware, and the SDK's business
                return response
            raise self._refused(request, options, response, text)

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
            if not _is_refusal(response):
                return response
            try:
                await response.http_response.aread()
                text = response.http_response.text
            except Exception:  # noqa: BLE001 - closed by another middleware, and the SDK's business
                return response
            raise self._refused(request, options, response, text)

        try:
            return await self._send(send, request, is_async=True)
        except _RefusedError as refused:
            return refused.answer

    def _send(self, send: Callable[..., Any], request: APIRequest, *, is_async: bool) -> Any:
        endpoints = _RETRIED if request.retries_taken else ENDPOINTS
        call = SdkCall(send, (request.cast_to, request.options), {}, is_async=is_async)
        return send_mended(call, self._instrumentation, endpoints, "anthropic")

    def _refused(
        self, request: APIRequest, options: Any, response: Any, text: str
    ) -> _RefusedError:
        """Return the refusal; of a request sent again it is told here, since nobody counts that one."""
        error = _RefusedError(response, text)
        with guard("telemetry"):
            if self._tells(request, response) and is_history_rejection(error):
                body = options.json_data
                thread = as_id(current_thread() or thread_from_baggage())
                label = self._instrumentation.thread_label
                facts = ModelCallFacts(
                    model=as_label(body.get("model") if isinstance(body, dict) else None),
                    provider="anthropic",
                    format="anthropic",
                    thread=None if thread is None else thread_label(thread, label),
                    outcome="clean" if options is request.options else "repaired",
                )
                count_rejection(facts)
        return error

    def _tells(self, request: APIRequest, response: Any) -> bool:
        if not request.retries_taken or settings().disabled or outermost_run() is not None:
            return False
        endpoint = find_endpoint(ENDPOINTS, request.options.url)
        if endpoint is None or not endpoint.is_counted:
            return False
        # Another one like this may stand further inside.
        seen = response.http_response.extensions
        return seen.setdefault(_TOLD, self) is self


def _is_refusal(response: Any) -> bool:
    """Tell whether a request was refused; a middleware may have answered it with something else altogether."""
    status = getattr(response, "status_code", None)
    return status == _BAD_REQUEST and hasattr(response, "http_response")


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
