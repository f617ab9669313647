"""SDK requests: the one method of a client through which every model call goes, mended on its way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from toolmend._model_call import decorate
from toolmend._prepared import Options
from toolmend.errors import PolicyError
from toolmend.formats.server_state import STATE_FIELDS
from toolmend.mending.policy import DEFAULT_POLICY, Policy, checked_policy
from toolmend.settings import Spans, ThreadLabel
from toolmend.telemetry.faults import guard
from toolmend.telemetry.thread_labels import check_thread_label

if TYPE_CHECKING:
    from toolmend._run import OnRepair

Send = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One kind of request.

    Attributes:
        key: name of the history in the body.
        format: its wire format.
        is_counted: whether it asks a model; what only counts tokens is mended and counted nowhere.
    """

    key: str
    format: str
    is_counted: bool = True


def uncounted(endpoints: Mapping[str, Endpoint]) -> dict[str, Endpoint]:
    """Return endpoints whose requests are mended and counted nowhere: what is sent again was counted the first time."""
    return {path: replace(endpoint, is_counted=False) for path, endpoint in endpoints.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumentation:
    """How requests are mended.

    Attributes:
        policy: what to do about faults.
        spans: which calls get a span; as the operator set it if None.
        thread_label: ids of conversations in telemetry as they are, or hashed.
        on_repair: called with each ``Repair``.
    """

    policy: Policy = DEFAULT_POLICY
    spans: Spans | None = None
    thread_label: ThreadLabel | None = None
    on_repair: OnRepair | None = None
    _senders: dict[tuple[str, Endpoint, bool], Send] = field(default_factory=dict, repr=False)

    def sender(self, provider: str, endpoint: Endpoint, *, is_async: bool) -> Send:
        """Return the function that mends and sends requests of one kind."""
        key = (provider, endpoint, is_async)
        found = self._senders.get(key)
        if found is None:
            found = self._senders[key] = self._make(provider, endpoint, is_async=is_async)
        return found

    def _make(self, provider: str, endpoint: Endpoint, *, is_async: bool) -> Send:
        options = Options(
            messages="messages",
            model=None,
            provider=provider,
            thread=None,
            thread_label=self.thread_label,
            format=endpoint.format,
            policy=self.policy,
            on_repair=self.on_repair,
            spans=self.spans,
        )
        made: Send = decorate(options, _senders(endpoint)[is_async])
        return made


def checked_instrumentation(
    *,
    policy: Policy | None,
    spans: Spans | None,
    thread_label: ThreadLabel | None,
    on_repair: OnRepair | None,
) -> Instrumentation:
    """Return options that can work.

    Raises:
        PolicyError: one cannot.
    """
    policy = checked_policy(policy)
    if spans not in (None, *get_args(Spans)):
        raise PolicyError(f"spans is one of {', '.join(get_args(Spans))}; got {spans!r}")
    check_thread_label(thread_label)
    if on_repair is not None and not callable(on_repair):
        raise PolicyError(f"on_repair must be a function of a Repair; got {on_repair!r}")
    return Instrumentation(
        policy=policy,
        spans=spans,
        thread_label=thread_label,
        on_repair=on_repair,
    )


def _senders(endpoint: Endpoint) -> tuple[Send, Send]:
    """Return the sync and the async function that send a request with its history, maybe another one."""

    def send(messages: Any, send_with: Send, **_: Any) -> Any:
        return send_with(messages)

    async def send_async(messages: Any, send_with: Send, **_: Any) -> Any:
        return await send_with(messages)

    if not endpoint.is_counted:
        for function in (send, send_async):
            function.__qualname__ = function.__name__ = "count_tokens"
    return send, send_async


_FACTS: Final = ("model", *STATE_FIELDS)
"""What the body of a request says that is not the history."""


class SdkCall(NamedTuple):
    """One call of a client's ``request(cast_to, options, …)`` or ``_build_request(options, …)``.

    Attributes:
        send: the method.
        args: its arguments by position.
        kwargs: its arguments by name.
        is_async: whether it gives a coroutine.
        position: of the options among ``args``, where they are not given by name.
    """

    send: Send
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_async: bool
    position: int = 1

    def options(self) -> Any:
        """Return the options: path, body and what is merged into it."""
        given = self.args[self.position] if len(self.args) > self.position else None
        return self.kwargs.get("options", given)

    def go(self) -> Any:
        """Send it as it is."""
        return self.send(*self.args, **self.kwargs)

    def go_with(self, options: Any) -> Any:
        """Send it with other options."""
        if "options" in self.kwargs:
            return self.send(*self.args, **{**self.kwargs, "options": options})
        before, after = self.args[: self.position], self.args[self.position + 1 :]
        return self.send(*before, options, *after, **self.kwargs)


def send_mended(
    call: SdkCall,
    instrumentation: Instrumentation,
    endpoints: Mapping[str, Endpoint],
    provider: str,
) -> Any:
    """Send a request, its history mended; what is no model call is sent as it is.

    Args:
        call: the request.
        instrumentation: how.
        endpoints: the model calls, by path.
        provider: name of the provider, as OpenTelemetry's GenAI conventions have it.
    """
    mended: Callable[[], Any] | None = None
    with guard("recognise"):
        mended = _prepared(call, instrumentation, endpoints, provider)
    return call.go() if mended is None else mended()


def _prepared(
    call: SdkCall,
    instrumentation: Instrumentation,
    endpoints: Mapping[str, Endpoint],
    provider: str,
) -> Callable[[], Any] | None:
    options = call.options()
    endpoint = find_endpoint(endpoints, getattr(options, "url", None))
    if endpoint is None:
        return None
    # What is given as extra_body is merged in later, and wins.
    extra = getattr(options, "extra_json", None)
    field_name = "extra_json" if _holds(extra, endpoint.key) else "json_data"
    body = getattr(options, field_name)
    if not _holds(body, endpoint.key):
        return None
    history = body[endpoint.key]

    def send_with(messages: Any) -> Any:
        changed = None
        if messages is not history:
            with guard("repair"):
                changed = copy.copy(options)
                setattr(changed, field_name, {**body, endpoint.key: messages})
        return call.go() if changed is None else call.go_with(changed)

    facts: dict[str, Any] = {}
    for one in (options.json_data, extra):
        if isinstance(one, Mapping):
            facts.update({name: one[name] for name in _FACTS if one.get(name) is not None})
    conversation = facts.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = conversation.get("id")
    # An application's own thread goes before it.
    facts["conversation_id"] = conversation
    send = instrumentation.sender(provider, endpoint, is_async=call.is_async)
    return partial(send, history, send_with=send_with, **facts)


def _holds(body: object, key: str) -> bool:
    return isinstance(body, Mapping) and body.get(key) is not None


def find_endpoint(endpoints: Mapping[str, Endpoint], url: object) -> Endpoint | None:
    """Return what a path stands for, in every spelling that the SDK takes: also whole, or below a gateway's path."""
    if not isinstance(url, str):
        return None
    path = "/" + url.partition("?")[0].strip("/")
    return next((endpoint for end, endpoint in endpoints.items() if path.endswith(end)), None)
