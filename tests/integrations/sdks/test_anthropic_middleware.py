"""The middleware for Anthropic's own seam: one line where a client is made."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import anthropic
import pytest

import toolmend
from tests.integrations.sdks.clients import ANTHROPIC, make_client
from tests.integrations.sdks.doors import CLAUDE, MESSAGES, MODEL, Door, done
from tests.integrations.sdks.histories import broken, clean, delta

if not hasattr(anthropic, "Middleware"):
    pytest.skip("this version has no middleware", allow_module_level=True)

from toolmend.integrations.anthropic import ToolmendMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio
DOORS = [
    pytest.param(name, door, id=f"{name}-{door.id}") for name in ANTHROPIC for door in MESSAGES
]


def client_with(name: str, wire: Wire, *layers: Any, **options: Any) -> Any:
    return make_client(name, wire, middleware=layers or [ToolmendMiddleware()], **options)


async def ask(client: Any, history: Any = None) -> Any:
    messages = broken("anthropic") if history is None else history
    return await done(client.messages.create(messages=messages, **CLAUDE))


@pytest.mark.parametrize(("name", "door"), DOORS)
async def test_every_door(name: str, door: Door, wire: Wire, telemetry: Captured) -> None:
    with pytest.raises(anthropic.BadRequestError):
        await door.ask(make_client(name, wire), broken("anthropic"))
    history = broken("anthropic")
    assert await door.ask(client_with(name, wire), history) in ("ok", None)
    assert wire.statuses == [400, 200]
    assert wire.history() == toolmend.repair(broken("anthropic")).messages
    assert history == broken("anthropic")
    assert telemetry.total("toolmend.model_calls") == door.is_counted
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == door.is_counted
    assert telemetry.total("toolmend.tool_calls.dangling") == door.is_counted
    assert len(telemetry.spans) == door.is_counted


@pytest.mark.parametrize(("name", "door"), DOORS)
async def test_a_clean_history_goes_out_byte_for_byte(name: str, door: Door, wire: Wire) -> None:
    await door.ask(make_client(name, wire), clean("anthropic"))
    await door.ask(client_with(name, wire), clean("anthropic"))
    assert wire.contents[0] == wire.contents[1]


@pytest.mark.parametrize("prefix", ["", "Async"], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["AnthropicVertex", "AnthropicFoundry"])
async def test_platforms(kind: str, prefix: str, wire: Wire, telemetry: Captured) -> None:
    await ask(client_with(prefix + kind, wire))
    assert wire.statuses == [200]
    # A middleware does not learn whose client it serves.
    labels = {"outcome": "repaired", "provider": "anthropic"}
    assert telemetry.total("toolmend.model_calls", **labels) == 1


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_clients_with_other_options_keep_it(name: str, wire: Wire) -> None:
    await ask(client_with(name, wire).with_options(timeout=9))
    await ask(make_client(name, wire).with_middleware(ToolmendMiddleware()))
    assert wire.statuses == [200, 200]


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_each_attempt_is_mended_and_the_call_counted_once(
    name: str, wire: Wire, telemetry: Captured
) -> None:
    told: list[Any] = []
    wire.failures = [500, 503]
    await ask(client_with(name, wire, ToolmendMiddleware(on_repair=told.append), max_retries=2))
    assert wire.statuses == [500, 503, 200]
    assert len(set(wire.contents)) == 1
    assert wire.history() == toolmend.repair(broken("anthropic")).messages
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.requested") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert len(telemetry.spans) == 1
    assert len(told) == 1


@pytest.mark.parametrize("name", ANTHROPIC)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_rejection_comes_out_as_without_it_and_is_counted(
    name: str, stream: bool, wire: Wire, telemetry: Captured
) -> None:
    observing = ToolmendMiddleware(policy=toolmend.Policy(mode="observe"))
    bodies = []
    for client in (make_client(name, wire), client_with(name, wire, observing)):
        with pytest.raises(anthropic.BadRequestError) as refused:
            await done(
                client.messages.create(messages=broken("anthropic"), stream=stream, **CLAUDE)
            )
        bodies.append({**refused.value.body, "request_id": None})
    assert bodies[0] == bodies[1]
    assert wire.contents[0] == wire.contents[1]
    assert telemetry.total("toolmend.rejections", outcome="observed") == 1
    [span] = telemetry.spans
    assert span.attributes["toolmend.rejected"] is True
    assert span.attributes["error.type"] == "BadRequestError"


@pytest.mark.parametrize(
    ("layers", "counted"),
    [("one", 1), ("two", 1), ("instrumented", 1), ("disabled", 0), ("tokens", 0)],
)
@pytest.mark.parametrize("name", ANTHROPIC)
async def test_a_rejection_of_a_retry_is_counted_once(
    name: str,
    layers: str,
    counted: int,
    wire: Wire,
    instrument: Callable[..., None],
    environment: Callable[..., None],
    telemetry: Captured,
) -> None:
    policy = toolmend.Policy(mode="observe")
    middleware = [ToolmendMiddleware(policy=policy) for _ in range(1 + (layers == "two"))]
    if layers == "instrumented":
        instrument(policy=policy)
    if layers == "disabled":
        environment(TOOLMEND_DISABLED="1")
    wire.failures = [500]
    client = make_client(name, wire, middleware=middleware, max_retries=1)
    entry, options = client.messages.create, CLAUDE
    if layers == "tokens":
        entry, options = client.messages.count_tokens, {"model": MODEL}
    with toolmend.thread("T-1"), pytest.raises(anthropic.BadRequestError):
        await done(entry(messages=broken("anthropic"), **options))
    assert wire.statuses == [500, 400]
    assert telemetry.total("toolmend.rejections") == counted
    assert telemetry.total("toolmend.model_calls") == counted
    threads = [event["thread"] for event in telemetry.logs if event["event"] == "history_rejected"]
    assert threads == ["T-1"] * counted


class Answering(anthropic.Middleware):
    """Answers by itself, with whatever it has."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def handle(self, request: Any, call_next: Any) -> Any:
        return self.answer

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        return self.answer


@pytest.mark.parametrize("disabled", ["0", "1"])
@pytest.mark.parametrize("answer", [None, anthropic.types.Message.model_construct(id="m")])
@pytest.mark.parametrize("name", ANTHROPIC)
async def test_another_middleware_may_answer(
    name: str, answer: Any, disabled: str, wire: Wire, environment: Callable[..., None]
) -> None:
    environment(TOOLMEND_DISABLED=disabled)
    client = make_client(name, wire, middleware=[ToolmendMiddleware(), Answering(answer)])
    assert await ask(client) is answer
    assert await done(client.get("/v1/models", cast_to=object)) is answer
    assert wire.sent == []


class Closing(anthropic.Middleware):
    """Closes what it gets."""

    def handle(self, request: Any, call_next: Any) -> Any:
        response = call_next(request)
        response.http_response.close()
        return response

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        await response.http_response.aclose()
        return response


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_another_middleware_may_close_a_refusal(name: str, wire: Wire) -> None:
    observing = ToolmendMiddleware(policy=toolmend.Policy(mode="observe"))
    for middleware in ([Closing()], [observing, Closing()]):
        client = make_client(name, wire, middleware=middleware)
        with pytest.raises(anthropic.BadRequestError):
            await done(client.messages.create(messages=broken("anthropic"), stream=True, **CLAUDE))


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_raise_sends_nothing(name: str, wire: Wire, telemetry: Captured) -> None:
    raising = ToolmendMiddleware(policy=toolmend.Policy(mode="raise"))
    with pytest.raises(toolmend.BrokenHistoryError):
        await ask(client_with(name, wire, raising))
    assert wire.sent == []
    assert telemetry.total("toolmend.model_calls", outcome="raised") == 1


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_under_instrument_the_call_is_counted_once(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    told: list[str] = []
    instrument(on_repair=lambda _: told.append("client"))
    wire.failures = [500]
    middleware = ToolmendMiddleware(on_repair=lambda _: told.append("middleware"))
    await ask(client_with(name, wire, middleware, max_retries=1))
    assert wire.statuses == [500, 200]
    assert told == ["client"]
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert telemetry.total("toolmend.repairs") == 1
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_what_a_layer_before_it_cuts_is_mended(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    class Trim(anthropic.Middleware):
        def _trimmed(self, request: Any) -> Any:
            kept = copy.deepcopy(request.json["messages"])
            kept[2]["content"] = kept[2]["content"][1:]
            return request.copy(body={**request.json, "messages": kept})

        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(self._trimmed(request))

        async def handle_async(self, request: Any, call_next: Any) -> Any:
            return await call_next(self._trimmed(request))

    instrument()
    await ask(client_with(name, wire, Trim(), ToolmendMiddleware()), clean("anthropic"))
    assert wire.statuses == [200]
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert telemetry.total("toolmend.model_calls") == 1


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_a_thread_that_goes_on_is_left_alone(name: str, wire: Wire) -> None:
    body = {"thread": {"type": "continue", "previous_message_id": "msg_1"}}
    for client in (make_client(name, wire), client_with(name, wire)):
        create = client.messages.create
        await done(create(messages=delta("anthropic"), extra_body=body, **CLAUDE))
    assert wire.contents[0] == wire.contents[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "drop"}, "toolmend.Policy"),
        ({"spans": "some"}, "always"),
        ({"thread_label": "short"}, "'raw' or 'hash'"),
        ({"on_repair": "print"}, "function"),
    ],
    ids=["policy", "spans", "thread_label", "on_repair"],
)
def test_options_that_cannot_work(options: dict[str, Any], words: str) -> None:
    with pytest.raises(toolmend.PolicyError, match=words):
        ToolmendMiddleware(**options)


def test_disabled(wire: Wire, environment: Callable[..., None], telemetry: Captured) -> None:
    environment(TOOLMEND_DISABLED="true")
    client = client_with("Anthropic", wire)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(messages=broken("anthropic"), **CLAUDE)
    assert telemetry.spans == ()


def test_the_response_of_a_request_stays_the_sdks_own(wire: Wire) -> None:
    client = client_with("Anthropic", wire)
    raw = client.messages.with_raw_response.create(messages=broken("anthropic"), **CLAUDE)
    assert raw.status_code == 200
    assert raw.parse().model == MODEL
