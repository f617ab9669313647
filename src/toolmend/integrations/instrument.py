"""instrument(): the SDKs' own model calls are mended, without touching the code that makes them."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from toolmend._run import OnRepair
from toolmend.errors import MissingExtraError, PolicyError
from toolmend.integrations import anthropic_sdk, openai_sdk
from toolmend.integrations.sdk_hooks import BuildHook, Hook, RequestHook
from toolmend.integrations.sdk_requests import Instrumentation, checked_instrumentation
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
_MAX_LAYERS: Final = 100
_SDKS: Final[dict[str, Any]] = {sdk.MODULE: sdk for sdk in (openai_sdk, anthropic_sdk)}


class _Process:
    """What is instrumented in this process. Wrappers stay once they are on, and are switched.

    Taking one off would take off whoever wrapped the same method later.
    """

    lock = threading.Lock()
    active: dict[str, Instrumentation] = {}  # noqa: RUF012 - the one of this process
    awaited: set[str] = set()  # noqa: RUF012 - the same


def _renew_lock() -> None:
    _Process.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


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
    reached, too. Called again, the new options count, and wrappers that others took off are put on again.

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
    try:
        wanted = tuple(sdks)
        is_known = not isinstance(sdks, str) and set(wanted) <= _SDKS.keys()
    except TypeError:  # no list, or of what cannot be a name
        is_known = False
    if not is_known:
        raise PolicyError(f"sdks is a list of {', '.join(_SDKS)}; got {sdks!r}")
    made = checked_instrumentation(
        policy=policy, spans=spans, thread_label=thread_label, on_repair=on_repair
    )
    _Process.active = dict.fromkeys(wanted, made)
    _reach(wanted)


def uninstrument() -> None:
    """Send the requests of every SDK as they are again."""
    _Process.active = {}


def stand_outermost() -> None:
    """Stand around all that other instrumentations have wrapped so far, and will on an SDK's import.

    Then what they record of a request is what is sent.
    """
    _reach(tuple(_Process.active), outermost=True)


def _reach(sdks: Collection[str], *, outermost: bool = False) -> None:
    """Wrap the SDKs that are there, and await the others."""
    for name in sdks:
        for module in dict.fromkeys(module for module, _ in _targets(name)):
            if module in sys.modules:
                # Another thread may be in the middle of its import: this waits for it.
                _patch(name, module, importlib.import_module(module), outermost=outermost)
                continue
            with _Process.lock:
                is_awaited = module in _Process.awaited
                _Process.awaited.add(module)
            if outermost or not is_awaited:
                patch = functools.partial(_patch, name, module, outermost=outermost)
                wrapt.register_post_import_hook(patch, module)


def _patch(name: str, module_name: str, module: ModuleType, *, outermost: bool) -> None:
    # An SDK whose insides are others is left alone; the fault is counted.
    with guard("recognise"), _Process.lock:
        for (target_module, target), kind in _targets(name).items():
            if target_module == module_name:
                make_hook = functools.partial(_hook, kind, name, target)
                _wrap(module, target, make_hook, outermost=outermost)


def _targets(name: str) -> dict[tuple[str, str], type[Hook]]:
    """Return the methods of an SDK that are wrapped, by module and path, and what they go through."""
    sdk = _SDKS[name]
    return dict.fromkeys(sdk.REQUESTS, RequestHook) | dict.fromkeys(sdk.BUILDERS, BuildHook)


def _hook(kind: type[Hook], name: str, target: str) -> Hook:
    return kind(
        _SDKS[name],
        target,
        active=lambda: _Process.active.get(name),
        restore=lambda: _reach((name,)),
    )


def _wrap(
    module: ModuleType, target: str, make_hook: Callable[[], Hook], *, outermost: bool
) -> None:
    """Put a wrapper around a method, unless ours is there already.

    Args:
        module: where the class is.
        target: class and method.
        make_hook: makes what calls go through.
        outermost: whether ours has to stand around all others. One that another instrumentation has wrapped
            stays on inside; of nested layers the outermost counts.
    """
    name, _, method = target.partition(".")
    owner = getattr(module, name)
    found = vars(owner).get(method)
    if _is_ours(found) if outermost else any(map(_is_ours, _layers(found))):
        return
    # It may stand there as somebody put it back.
    if found is None or any(found is vars(base).get(method) for base in owner.__mro__[1:]):
        found = _inherited(owner, method)
    if not hasattr(type(found), "__get__"):
        return  # no method: the mock of a test, and its business
    hook = make_hook()
    setattr(owner, method, wrapt.FunctionWrapper(found, hook, enabled=hook.is_on))


def _is_ours(layer: object) -> bool:
    # Also as whoever reads the attribute of the class gets it, and may put back.
    return isinstance(getattr(layer, "_self_wrapper", None), Hook)


def _layers(function: object) -> Iterator[object]:
    """Yield a function and all that it wraps, as far as its wrappers tell."""
    for _ in range(_MAX_LAYERS):
        if function is None:
            return
        yield function
        function = getattr(function, "__wrapped__", None)


def _inherited(owner: Any, method: str) -> Any:
    """Return a method that calls the inherited one, whatever that is by then: others may replace it."""
    above = getattr(super(owner, owner), method)
    if inspect.iscoroutinefunction(above):

        @functools.wraps(above)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await getattr(super(owner, self), method)(*args, **kwargs)

        return call_async

    @functools.wraps(above)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(owner, self), method)(*args, **kwargs)

    return call
