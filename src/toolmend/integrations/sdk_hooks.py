"""SDK hooks: what the methods of an SDK's clients go through while the SDK is instrumented."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.integrations.sdk_requests import SdkCall, send_mended, uncounted
from toolmend.telemetry.faults import guard

if TYPE_CHECKING:
    from toolmend.integrations.sdk_requests import Instrumentation

_is_hooked: Final[ContextVar[bool]] = ContextVar("toolmend_sdk_request_is_hooked", default=False)
"""Whether the request under way has come through the hook of its method."""


class Hook:
    """What one method goes through.

    Args:
        sdk: the module that describes the SDK.
        target: path of the method in the SDK's module.
        active: how the SDK is instrumented; None while it is not.
        restore: puts the wrappers back that others have taken off.
    """

    def __init__(
        self,
        sdk: Any,
        target: str,
        *,
        active: Callable[[], Instrumentation | None],
        restore: Callable[[], None],
    ) -> None:
        self._sdk = sdk
        self._is_async = target.startswith("Async")
        self._active = active
        self._restore = restore

    def is_on(self) -> bool:
        """Tell whether calls go through it."""
        return self._active() is not None

    def __call__(
        self, wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the method."""
        raise NotImplementedError

    def _provider(self, client: Any) -> str:
        with guard("recognise"):
            return str(self._sdk.provider_of(client))
        return str(self._sdk.MODULE)


class RequestHook(Hook):
    """What a client's ``request`` goes through: once per call, before its retries."""

    def __call__(
        self, wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Send the request, its history mended."""
        active = self._active()
        if active is None:
            return wrapped(*args, **kwargs)
        send = partial(_send_hooked_async if self._is_async else _send_hooked, wrapped)
        call = SdkCall(send, args, kwargs, is_async=self._is_async)
        return send_mended(call, active, self._sdk.ENDPOINTS, self._provider(client))


def _send_hooked(send: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    token = _is_hooked.set(True)
    try:
        return send(*args, **kwargs)
    finally:
        _is_hooked.reset(token)


async def _send_hooked_async(send: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    token = _is_hooked.set(True)
    try:
        return await send(*args, **kwargs)
    finally:
        _is_hooked.reset(token)


class BuildHook(Hook):
    """What building an HTTP request goes through: once per attempt. It steps in where a ``RequestHook`` is lost.

    Another instrumentation that goes may put back the request method as it found it, without our wrapper.
    The first call after that is mended and counted here, its span over before it is sent, and the wrapper
    is put back for those that follow.
    """

    def __call__(
        self, wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Build the request, its history mended unless it is already."""
        active = self._active()
        if active is None or _is_hooked.get():
            return wrapped(*args, **kwargs)
        with guard("recognise"):
            self._restore()
        endpoints = self._sdk.ENDPOINTS
        if kwargs.get("retries_taken"):  # counted at the first attempt
            endpoints = {path: uncounted(endpoint) for path, endpoint in endpoints.items()}
        call = SdkCall(wrapped, args, kwargs, is_async=False, position=0)
        return send_mended(call, active, endpoints, self._provider(client))
