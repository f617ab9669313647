"""SDK hooks: what the methods of an SDK's clients go through while the SDK is instrumented."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend.integrations.sdk_requests import SdkCall, send_mended, uncounted
from toolmend.telemetry.faults import guard

if TYPE_CHECKING:
    from toolmend.integrations.sdk_requests import Instrumentation


class _Sending:
    """One request that has come through the hook of its method, until it is answered.

    Told from the mark alone it could not be: tasks begun meanwhile inherit that, and outlive the request.
    """

    __slots__ = ("_before", "client", "is_over")

    def __init__(self, client: object) -> None:
        self.client = client
        self.is_over = False

    def __enter__(self) -> None:
        self._before = _sending.set(self)

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        # A coroutine may be closed from another context than it ran in; there is no mark to take off there.
        with suppress(ValueError):
            _sending.reset(self._before)


_sending: Final[ContextVar[_Sending | None]] = ContextVar("toolmend_sdk_sending", default=None)


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
        send = partial(_send_async if self._is_async else _send, client, wrapped)
        call = SdkCall(send, args, kwargs, is_async=self._is_async)
        return send_mended(call, active, self._sdk.ENDPOINTS, self._provider(client))


def _send(client: object, send: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _Sending(client):
        return send(*args, **kwargs)


async def _send_async(client: object, send: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _Sending(client):
        return await send(*args, **kwargs)


class BuildHook(Hook):
    """What building an HTTP request goes through: once per attempt. It steps in where a ``RequestHook`` is lost.

    Another instrumentation that goes may put back the request method as it found it, without our wrapper.
    The first call after that is mended and counted here, its span over before it is sent and its rejection
    not noticed, and the wrapper is put back for those that follow.
    """

    def __init__(self, sdk: Any, target: str, **options: Any) -> None:
        super().__init__(sdk, target, **options)
        self._retried = uncounted(sdk.ENDPOINTS)

    def __call__(
        self, wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Build the request, its history mended unless it is already."""
        active = self._active()
        sending = _sending.get()
        is_mended = sending is not None and sending.client is client and not sending.is_over
        if active is None or is_mended:
            return wrapped(*args, **kwargs)
        with guard("recognise"):
            self._restore()
        endpoints = self._retried if kwargs.get("retries_taken") else self._sdk.ENDPOINTS
        call = SdkCall(wrapped, args, kwargs, is_async=False, position=0)
        return send_mended(call, active, endpoints, self._provider(client))
