"""Methods of an SDK that others wrap, put back and replace while it is instrumented."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import anthropic
import openai
import pytest
import wrapt

import toolmend
from tests.integrations.sdks.clients import OPENAI, make_client
from tests.integrations.sdks.doors import MODEL, done
from tests.integrations.sdks.histories import broken, clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio


async def ask(client: Any, history: Any = None) -> Any:
    messages = broken("openai-chat") if history is None else history
    return await done(client.chat.completions.create(model=MODEL, messages=messages))


# -- the request method put back, as by an instrumentation that goes -------------------------------

ON_PLATFORMS = ("AzureOpenAI", "AsyncAzureOpenAI", "BedrockOpenAI")


def put_back_bare_method(name: str) -> Any:
    owner = openai.AsyncOpenAI if name.startswith("Async") else openai.OpenAI
    owner.request = inspect.unwrap(vars(owner)["request"])
    return owner


@pytest.mark.parametrize("name", [*OPENAI, *ON_PLATFORMS])
async def test_a_method_put_back_by_others_is_stood_in_for_and_wrapped_again(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    told: list[Any] = []
    instrument(on_repair=told.append)
    client = make_client(name, wire, max_retries=2)
    put_back_bare_method(name)
    wire.failures = [500, 503]
    await ask(client)
    assert wire.statuses == [500, 503, 200]
    assert len(set(wire.contents)) == 1
    assert wire.history() == toolmend.repair(broken("openai-chat")).messages
    assert len(told) == 1
    wire.failures = [500]
    with pytest.raises(openai.InternalServerError):
        await ask(client.with_options(max_retries=0))
    assert len(told) == 2
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 2
    assert telemetry.total("toolmend.model_calls") == 2
    assert telemetry.total("toolmend.tool_calls.dangling") == 2
    # The first one was over before its request was sent, the second one saw it fail.
    first, second = telemetry.spans
    assert "error.type" not in first.attributes
    assert second.attributes["error.type"] == "InternalServerError"
    assert first.attributes["gen_ai.provider.name"] == second.attributes["gen_ai.provider.name"]


@pytest.mark.parametrize("name", OPENAI)
async def test_a_method_put_back_by_others_stays_where_nothing_is_instrumented(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    client = make_client(name, wire)
    owner = put_back_bare_method(name)
    toolmend.uninstrument()
    with pytest.raises(openai.BadRequestError):
        await ask(client)
    assert wire.history() == broken("openai-chat")
    assert telemetry.total("toolmend.model_calls") == 0
    assert inspect.isfunction(owner.request)


@pytest.mark.parametrize("name", OPENAI)
async def test_under_a_method_put_back_by_others_raise_sends_nothing(
    name: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    instrument(policy=toolmend.Policy(mode="raise"))
    client = make_client(name, wire)
    put_back_bare_method(name)
    with pytest.raises(toolmend.BrokenHistoryError):
        await ask(client)
    assert wire.sent == []


@pytest.mark.parametrize("name", OPENAI)
async def test_a_clean_history_under_a_method_put_back_by_others_is_sent_byte_by_byte(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client(name, wire)
    await ask(client, clean("openai-chat"))
    instrument()
    put_back_bare_method(name)
    await ask(client, clean("openai-chat"))
    assert len(set(wire.contents)) == 1
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 1


# -- who stands in ---------------------------------------------------------------------------------


async def test_a_call_inside_a_request_of_another_sdk_is_stood_in_for(
    wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    if not hasattr(anthropic, "Middleware"):
        pytest.skip("this version has no middleware")
    client = make_client("OpenAI", wire)

    class Asking(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            client.chat.completions.create(model=MODEL, messages=broken("openai-chat"))
            return call_next(request)

    instrument()
    put_back_bare_method("OpenAI")
    outer = make_client("Anthropic", wire, middleware=[Asking()])
    outer.messages.create(model=MODEL, max_tokens=9, messages=clean("anthropic"))
    assert wire.statuses == [200, 200]
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1


async def test_a_task_begun_inside_a_request_is_stood_in_for_when_that_is_over(
    wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    client = make_client("AsyncOpenAI", wire)
    tasks: list[asyncio.Task[Any]] = []
    go_on = asyncio.Event()

    async def later() -> None:
        await go_on.wait()
        await ask(client)

    async def begin(_: object) -> None:
        if not tasks:
            tasks.append(asyncio.create_task(later()))

    client._client.event_hooks = {"request": [begin]}
    instrument()
    await ask(client)
    put_back_bare_method("AsyncOpenAI")
    go_on.set()
    await tasks[0]
    assert wire.statuses == [200, 200]
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 2


async def test_a_call_inside_a_call_is_stood_in_for(
    wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    """Of another client, whose class goes past the method that is wrapped."""

    class Bare(openai.OpenAI):
        def request(self, *args: Any, **kwargs: Any) -> Any:
            return inspect.unwrap(openai.OpenAI.__mro__[1].request)(self, *args, **kwargs)

    arguments = {"api_key": "test", "base_url": "https://api.openai.com/v1"}
    inner = Bare(http_client=wire.client(openai, is_async=False), **arguments)
    asked: list[Any] = []

    def ask_too(_: object) -> None:
        if not asked:
            asked.append(None)
            inner.chat.completions.create(model=MODEL, messages=broken("openai-chat"))

    outer = make_client("OpenAI", wire, max_retries=1)
    outer._client.event_hooks = {"request": [ask_too]}
    instrument()
    await ask(outer)
    assert wire.statuses == [200, 200]
    assert telemetry.total("toolmend.model_calls") == 1, "the inner one is part of the outer one"


def test_a_coroutine_may_be_closed_from_another_context(
    wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    """As the garbage collector does with a task that nobody waited for."""
    instrument()
    client = make_client("AsyncOpenAI", wire)

    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    client._client.event_hooks = {"request": [hang]}
    client._platform = "here"  # which the SDK else finds out in a thread

    async def begin() -> Any:
        call = client.chat.completions.create(model=MODEL, messages=broken("openai-chat"))
        contextvars.copy_context().run(call.send, None)
        return call

    asyncio.run(begin()).close()
    [span] = telemetry.spans
    assert span.attributes["error.type"] == "GeneratorExit"


# -- what others do --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPENAI)
@pytest.mark.parametrize("is_on_when_they_go", [True, False])
async def test_wrappers_do_not_pile_up(
    name: str,
    is_on_when_they_go: bool,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    """As with fixtures that switch on and off around each of many tests."""
    owner = openai.AsyncOpenAI if name.startswith("Async") else openai.OpenAI
    client = make_client(name, wire)

    def layers() -> int:
        function, found = vars(owner)["request"], 0
        while function is not None:
            function, found = getattr(function, "__wrapped__", None), found + 1
        return found

    around, counts = set(), set()
    for _ in range(5):
        instrument()
        found = owner.request
        wrapt.wrap_function_wrapper(
            owner, "request", lambda call, _, args, kwargs: call(*args, **kwargs)
        )
        instrument()
        around.add(layers())
        await ask(client)
        if not is_on_when_they_go:
            toolmend.uninstrument()
        owner.request = found  # all that they know of it
        counts.add(layers())
        instrument()
        await ask(client)
        toolmend.uninstrument()
    assert len(around) == len(counts) == 1
    assert wire.statuses == [200] * 10
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 10


@pytest.mark.parametrize("name", OPENAI)
async def test_the_mock_of_a_test_is_left_alone(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    """One that is no method: before wrapt 1.17 a wrapper around it fails at each call."""
    instrument()
    client = make_client(name, wire)
    owner = openai.AsyncOpenAI if name.startswith("Async") else openai.OpenAI
    real = owner.__mro__[1].request

    def spy(*args: Any, **kwargs: Any) -> Any:
        return real(client, *args, **kwargs)

    with mock.patch.object(owner, "request", side_effect=spy, new_callable=mock.MagicMock) as seen:
        await ask(client)
        instrument()
        await ask(client)
    assert seen.call_count == 2
    await ask(client)
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 3
    assert wire.statuses == [200] * 3


FORKED = """
import os
import openai
from toolmend.integrations import instrument

instrument.instrument()
with instrument._Process.lock:  # as another thread may hold it
    child = os.fork()
    if child == 0:
        instrument.uninstrument()
        del openai.OpenAI.request
        instrument.instrument()
        os._exit(0 if "request" in vars(openai.OpenAI) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_fork_holds_no_lock() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("name", OPENAI)
async def test_a_base_method_that_others_replace_is_theirs(
    name: str, is_on: bool, wire: Wire, instrument: Callable[..., None]
) -> None:
    instrument()
    if not is_on:
        toolmend.uninstrument()
    client = make_client(name, wire)
    base: Any = inspect.getmodule(openai.OpenAI.__mro__[1])
    owner = base.AsyncAPIClient if name.startswith("Async") else base.SyncAPIClient
    with mock.patch.object(owner, "request", return_value="stub") as theirs:
        assert await ask(client) == "stub"
    theirs.assert_called_once()
    assert wire.sent == []
