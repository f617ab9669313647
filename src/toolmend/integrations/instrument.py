"""instrument(): the SDKs' own model calls are mended, without touching the code that makes them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from toolmend._run import OnRepair
from toolmend.errors import MissingExtraError, PolicyError
from toolmend.integrations import anthropic_sdk, openai_sdk
from toolmend.integrations.sdk_requests import (
    Instrumentation,
    SdkCall,
    checked_instrumentation,
    send_mended,
)
from toolmend.mending.policy import Policy
from toolmend.settings import Spans, ThreadLabel
from toolmend.telemetry.faults import guard

try:
    import wrapt
except ImportError as error:  # pragma: no cover - only in an environment without the extra
    raise MissingExtraError("toolmend.instrument", "instrument") from error

if TYPE_CHECKING:
    from types import ModuleType

Sdk = Literal["openai", "anthropic"]
_SDKS: Final[dict[str, Any]] = {sdk.MODULE: sdk for sdk in (openai_sdk, anthropic_sdk)}


class _Process:
    """What is instrumented in this process. Wrappers stay once they are on, and are switched.

    Taking one off would take off whoever wrapped the same method later.
    """

    lock = threading.Lock()
    active: dict[str, Instrumentation] = {}  # noqa: RUF012 - the one of this process
    hooked: set[str] = set()  # noqa: RUF012 - the same


def instrument(
    *,
    sdks: Collection[Sdk] = get_args(Sdk),
    policy: Policy | None = None,
    spans: Spans | None = None,
    thread_label: ThreadLabel | None = None,
    on_repair: OnRepair | None = None,
) -> None:
    """Mend the history of every model call that goes through the SDKs of OpenAI and Anthropic.

    Imports nothing: an SDK that the application imports later is reached then, clients that exist are
    reached, too. Called again, the new options count.

    Args:
        sdks: which SDKs.
        policy: what to do about faults. ``TOOLMEND_MODE`` wins over its mode.
        spans: ``always``, ``repairs`` or ``never``; else as ``TOOLMEND_SPANS`` says.
        thread_label: ``"hash"`` keeps ids of conversations out of telemetry.
        on_repair: called with each ``Repair`` before the request is sent; may be async only where all
            clients are.

    Raises:
        PolicyError: an option that cannot work.
    """
    unknown = sorted(set(sdks) - set(_SDKS))
    if isinstance(sdks, str) or unknown:
        raise PolicyError(f"sdks is a list of {', '.join(_SDKS)}; got {sdks!r}")
    made = checked_instrumentation(
        policy=policy, spans=spans, thread_label=thread_label, on_repair=on_repair
    )
    with _Process.lock:
        _Process.active = dict.fromkeys(sdks, made)
        new = set(sdks) - _Process.hooked
        _Process.hooked |= new
    for name in sorted(new):
        for module in dict.fromkeys(module for module, _ in _SDKS[name].TARGETS):
            if module in sys.modules:
                _patch(name, module, sys.modules[module])
            else:
                wrapt.register_post_import_hook(partial(_patch, name, module), module)


def uninstrument() -> None:
    """Send the requests of every SDK as they are again."""
    with _Process.lock:
        _Process.active = {}


def is_instrumented(sdk: str) -> bool:
    """Tell whether the requests of an SDK are mended."""
    return sdk in _Process.active


def _patch(name: str, module_name: str, module: ModuleType) -> None:
    # An SDK whose insides are others is left alone; the fault is counted.
    with guard("recognise"):
        for target_module, target in _SDKS[name].TARGETS:
            if target_module == module_name:
                wrapt.wrap_object(
                    module,
                    target,
                    wrapt.FunctionWrapper,
                    (partial(_request, name),),
                    {"enabled": partial(is_instrumented, name)},
                )


def _request(
    name: str, wrapped: Any, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    active = _Process.active.get(name)
    if active is None:
        return wrapped(*args, **kwargs)
    sdk = _SDKS[name]
    provider = name
    with guard("recognise"):
        provider = sdk.provider_of(client)
    return send_mended(SdkCall(wrapped, args, kwargs), active, sdk.ENDPOINTS, provider)
