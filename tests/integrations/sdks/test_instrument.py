"""instrument() and uninstrument(): options, switches, layers, retries, faults, threads."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

import toolmend
from tests.integrations.sdks.clients import ANTHROPIC, OPENAI, make_client
from tests.integrations.sdks.doors import CLAUDE, MODEL, done
from tests.integrations.sdks.histories import broken, clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio
CLIENTS = (*OPENAI, *ANTHROPIC)
REFUSED = (openai.BadRequestError, anthropic.BadRequestError)


def create_of(client: Any) -> Any:
    """Return the method that asks, of a resource that the client keeps."""
    return (
        client.chat.completions.create
        if "OpenAI" in type(client).__name__
        else client.messages.create
    )


def format_of(client: Any) -> str:
    return "openai-chat" if "OpenAI" in type(client).__name__ else "anthropic"


async def ask(client: Any, history: Any = None) -> Any:
    options = {"model": MODEL} if "OpenAI" in type(client).__name__ else CLAUDE
    messages = broken(format_of(client)) if history is None else history
    return await done(create_of(client)(messages=messages, **options))


def placeholder(wire: Wire) -> str:
    """Return the text that stands in for the missing result."""
    found: list[str] = []
    for message in wire.history():
        if message["role"] == "tool":
            found.append(message["content"])
        elif isinstance(message["content"], list):
            blocks = [block for block in message["content"] if block["type"] == "tool_result"]
            found += [json.dumps(block["content"]) for block in blocks]
    [text] = found
    return text


# -- on and off ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
async def test_on_off_and_on_again_reaches_clients_and_methods_that_exist(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client(name, wire)
    kept = create_of(client)
    options = {"model": MODEL} if name in OPENAI else CLAUDE

    async def ask_kept() -> Any:
        return await done(kept(messages=broken(format_of(client)), **options))

    with pytest.raises(REFUSED):
        await ask_kept()
    instrument()
    instrument()
    await ask_kept()
    assert len(telemetry.spans) == 1
    toolmend.uninstrument()
    toolmend.uninstrument()
    with pytest.raises(REFUSED):
        await ask_kept()
    instrument()
    await ask_kept()
    assert wire.statuses == [400, 200, 400, 200]
    assert telemetry.total("toolmend.model_calls") == 2
    assert len(telemetry.spans) == 2


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_options_of_the_last_time_count(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client(name, wire)
    instrument(policy=toolmend.Policy(placeholder="first text"))
    await ask(client)
    assert "first text" in placeholder(wire)
    instrument(policy=toolmend.Policy(placeholder="second text"), spans="never")
    await ask(client)
    assert "second text" in placeholder(wire)
    assert len(telemetry.spans) == 1
    instrument(sdks=["anthropic" if name in OPENAI else "openai"])
    with pytest.raises(REFUSED):
        await ask(client)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_one_sdk_alone(sdk: Any, wire: Wire, instrument: Callable[..., None]) -> None:
    instrument(sdks=(name for name in [sdk]))
    for name in CLIENTS:
        client = make_client(name, wire)
        if sdk in name.lower():
            await ask(client)
        else:
            with pytest.raises(REFUSED):
                await ask(client)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sdks": ["mistral"]}, "openai, anthropic"),
        ({"sdks": "openai"}, "list of"),
        ({"policy": "drop"}, "toolmend.Policy"),
        ({"spans": "some"}, "always"),
        ({"thread_label": "short"}, "'raw' or 'hash'"),
        ({"on_repair": "print"}, "function"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_cannot_work_are_told_and_change_nothing(
    options: dict[str, Any], words: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    instrument()
    with pytest.raises(toolmend.PolicyError, match=words):
        instrument(**options)
    client = make_client("OpenAI", wire)
    client.chat.completions.create(model=MODEL, messages=broken("openai-chat"))
    assert wire.statuses == [200]


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
async def test_on_repair_gets_the_repair_before_the_request(
    name: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    told: list[tuple[toolmend.Repair, int]] = []
    instrument(on_repair=lambda repair: told.append((repair, len(wire.sent))))
    client = make_client(name, wire)
    await ask(client)
    await ask(client, clean(format_of(client)))
    [(repair, sent_before)] = told
    assert sent_before == 0
    assert repair.counts["patched"] == 1
    assert wire.history(0) == repair.messages


@pytest.mark.parametrize("name", CLIENTS)
async def test_on_repair_may_be_async_for_async_clients(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    told: list[toolmend.Repair] = []

    async def tell(repair: toolmend.Repair) -> None:
        await asyncio.sleep(0)
        told.append(repair)

    instrument(on_repair=tell)
    await ask(make_client(name, wire))
    is_async = name.startswith("Async")
    assert wire.statuses == [200]
    assert len(told) == is_async
    assert telemetry.total("toolmend.faults", where="on_repair") == (not is_async)


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_thread_is_named_or_hashed(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client(name, wire)
    with toolmend.thread("conversation-42"):
        instrument()
        await ask(client)
        instrument(thread_label="hash")
        await ask(client)
    plain, hashed = (span.attributes["gen_ai.conversation.id"] for span in telemetry.spans)
    assert plain == "conversation-42"
    assert "42" not in hashed or len(hashed) > len(plain)
    assert hashed != plain


@pytest.mark.parametrize(
    ("spans", "outcomes"),
    [("always", ["clean", "repaired"]), ("repairs", ["repaired"]), ("never", [])],
)
def test_spans(
    spans: Any,
    outcomes: list[str],
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    instrument(spans=spans)
    client = make_client("OpenAI", wire)
    for history in (clean("openai-chat"), broken("openai-chat")):
        client.chat.completions.create(model=MODEL, messages=history)
    assert [span.attributes["toolmend.outcome"] for span in telemetry.spans] == outcomes
    assert telemetry.total("toolmend.model_calls") == 2


# -- modes and the operator's switches --------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
async def test_observe_sends_the_history_as_it_is_and_counts_the_rejection(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client(name, wire)
    with pytest.raises(REFUSED):
        await ask(client)
    instrument(policy=toolmend.Policy(mode="observe"))
    with pytest.raises(REFUSED):
        await ask(client)
    assert wire.contents[0] == wire.contents[1]
    provider = "openai" if name in OPENAI else "anthropic"
    assert telemetry.total("toolmend.rejections", outcome="observed", provider=provider) == 1
    assert telemetry.total("toolmend.rejections") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    [span] = telemetry.spans
    assert span.attributes["toolmend.rejected"] is True
    assert span.attributes["error.type"] == "BadRequestError"


@pytest.mark.parametrize("name", CLIENTS)
async def test_raise_sends_nothing(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument(policy=toolmend.Policy(mode="raise"))
    with pytest.raises(toolmend.BrokenHistoryError):
        await ask(make_client(name, wire))
    assert wire.sent == []
    assert telemetry.total("toolmend.model_calls", outcome="raised") == 1


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("variables", "raised", "outcomes"),
    [
        ({"TOOLMEND_MODE": "observe"}, REFUSED, ["observed"]),
        ({"TOOLMEND_MODE": "raise"}, toolmend.BrokenHistoryError, ["raised"]),
        ({"TOOLMEND_DISABLED": "1"}, REFUSED, []),
    ],
    ids=["observe", "raise", "disabled"],
)
async def test_the_operators_switches_win(
    name: str,
    variables: dict[str, str],
    raised: Any,
    outcomes: list[str],
    wire: Wire,
    instrument: Callable[..., None],
    environment: Callable[..., None],
    telemetry: Captured,
) -> None:
    environment(**variables)
    instrument(policy=toolmend.Policy(mode="repair"))
    with pytest.raises(raised):
        await ask(make_client(name, wire))
    counted = telemetry.non_zero("toolmend.model_calls")
    assert [dict(series)["outcome"] for series in counted] == outcomes
    assert len(telemetry.spans) == len(outcomes)


# -- layers and retries ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_decorated_function_over_an_instrumented_client_is_counted_once(
    name: str, stream: bool, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    told: list[str] = []
    instrument(on_repair=lambda _: told.append("client"))
    client = make_client(name, wire)
    create = toolmend.model_call(create_of(client), on_repair=lambda _: told.append("function"))
    options: Any = {"model": MODEL} if name in OPENAI else CLAUDE
    answer = await done(create(messages=broken(format_of(client)), stream=stream, **options))
    if stream:
        async for _ in _each(answer):
            pass
    assert wire.statuses == [200]
    assert told == ["function"]
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.requested") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert telemetry.total("toolmend.repairs") == 1
    [span] = telemetry.spans
    assert span.attributes["toolmend.repairs.patched"] == 1


async def _each(stream: Any) -> Any:
    if hasattr(stream.__class__, "__aiter__"):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


def test_what_is_cut_between_two_layers_is_mended_by_the_inner_one(
    wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    client = make_client("OpenAI", wire)

    @toolmend.model_call
    def ask_trimmed(messages: list[Any]) -> Any:
        kept = [messages[0], messages[1], messages[3]]
        return client.chat.completions.create(model=MODEL, messages=kept)

    ask_trimmed(clean("openai-chat"))
    assert wire.statuses == [200]
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("name", CLIENTS)
async def test_retries_send_the_mended_history_and_count_once(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    told: list[Any] = []
    instrument(on_repair=told.append)
    wire.failures = [500, 503]
    client = make_client(name, wire, max_retries=2)
    await ask(client)
    assert wire.statuses == [500, 503, 200]
    assert len(set(wire.contents)) == 1
    assert wire.history() == toolmend.repair(broken(format_of(client))).messages
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert len(telemetry.spans) == 1
    assert len(told) == 1


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_error_of_the_provider_comes_out_as_it_is(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    wire.failures = [500]
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
        await ask(make_client(name, wire))
    [span] = telemetry.spans
    assert span.attributes["error.type"] == "InternalServerError"
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert telemetry.total("toolmend.rejections") == 0


# -- our own faults --------------------------------------------------------------------------------


class NotReadable(dict):  # type: ignore[type-arg]  # as an application may make one
    """A body that the SDK can write, and nobody can ask."""

    def get(self, *_: Any) -> Any:
        raise RuntimeError("not to be read")


class NotCopied(dict):  # type: ignore[type-arg]  # likewise
    """A body that can be read and written, and not copied."""

    def __iter__(self) -> Any:
        raise RuntimeError("not to be copied")

    keys = __iter__  # type: ignore[assignment]  # what a copy asks


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("kind", "where"), [(NotReadable, "recognise"), (NotCopied, "repair")], ids=["read", "copy"]
)
async def test_a_fault_of_ours_lets_the_request_through_and_is_counted(
    name: str,
    kind: Any,
    where: str,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    instrument()
    client = make_client(name, wire)
    path = "/chat/completions" if name in OPENAI else "/v1/messages"
    models = openai._models if name in OPENAI else anthropic._models
    options = models.FinalRequestOptions.construct(method="post", url=path)
    options.json_data = kind(CLAUDE, messages=broken(format_of(client)))
    with pytest.raises(REFUSED):
        await done(client.request(object, options))
    assert wire.history() == broken(format_of(client))
    assert telemetry.total("toolmend.faults", where=where) == 1
    assert telemetry.total("toolmend.faults") == 1


def test_an_sdk_with_other_insides_is_left_alone(
    telemetry: Captured, instrument: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a version to come may be: without the classes that we know."""
    import sys
    import types

    monkeypatch.setitem(sys.modules, "openai", types.ModuleType("openai"))
    instrument(sdks=["openai"])
    assert telemetry.total("toolmend.faults", where="recognise") == 1


# -- at once ---------------------------------------------------------------------------------------


def test_twenty_threads(wire: Wire, instrument: Callable[..., None], telemetry: Captured) -> None:
    clients = [make_client(name, wire) for name in ("OpenAI", "Anthropic")]
    start = threading.Barrier(20)

    def work(index: int) -> None:
        client = clients[index % 2]
        options: Any = {"model": MODEL} if index % 2 == 0 else CLAUDE
        start.wait()
        instrument()
        for _ in range(5):
            history = broken(format_of(client))
            before = copy.deepcopy(history)
            create_of(client)(messages=history, **options)
            assert history == before

    with ThreadPoolExecutor(20) as pool:
        for done_ in [pool.submit(work, index) for index in range(20)]:
            done_.result()
    assert wire.statuses == [200] * 100
    assert telemetry.total("toolmend.model_calls") == 100
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 100
    assert telemetry.total("toolmend.faults") == 0
    assert len(telemetry.spans) == 100


@pytest.mark.parametrize("name", [name for name in CLIENTS if name.startswith("Async")])
async def test_twenty_tasks(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    client = make_client(name, wire)

    async def one(index: int) -> None:
        with toolmend.thread(f"thread-{index}"):
            await ask(client)

    await asyncio.gather(*map(one, range(20)))
    assert wire.statuses == [200] * 20
    threads = {span.attributes["gen_ai.conversation.id"] for span in telemetry.spans}
    assert threads == {f"thread-{index}" for index in range(20)}
    assert telemetry.total("toolmend.model_calls") == 20
