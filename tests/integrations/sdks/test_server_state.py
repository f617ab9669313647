"""Histories that live on the provider's server: what is sent is only the new part, and stays as it is."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import anthropic
import pytest

import toolmend
from tests.integrations.sdks.clients import ANTHROPIC, OPENAI, make_client
from tests.integrations.sdks.doors import CLAUDE, MODEL, done
from tests.integrations.sdks.histories import broken, delta
from tests.integrations.sdks.wire import Wire
from toolmend.testing import Reply, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio
CONTINUE = {"type": "continue", "previous_message_id": "msg_1"}
REQUESTS = [
    pytest.param("openai-responses", {"previous_response_id": "resp_1"}, id="previous-response"),
    pytest.param("openai-responses", {"conversation": "conv_1"}, id="conversation"),
    pytest.param("openai-responses", {"conversation": {"id": "conv_1"}}, id="conversation-object"),
    pytest.param(
        "openai-responses",
        {"extra_body": {"previous_response_id": "resp_1"}},
        id="previous-response-in-extra-body",
    ),
    pytest.param("anthropic", {"extra_body": {"thread": CONTINUE}}, id="thread-in-extra-body"),
    pytest.param("anthropic-beta", {"thread": CONTINUE}, id="thread"),
]


async def send(client: Any, kind: str, history: list[Any], options: dict[str, Any]) -> Any:
    if kind == "openai-responses":
        if not hasattr(client, "responses"):
            pytest.skip("this version has no responses")
        create, needed = client.responses.create, {"model": MODEL, "input": history}
    else:
        messages = client.messages if kind == "anthropic" else client.beta.messages
        create, needed = messages.create, {"messages": history, **CLAUDE}
    try:
        return await done(create(**needed, **options))
    except TypeError as error:
        pytest.skip(f"this version does not know of it: {error}")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("kind", "options"), REQUESTS)
async def test_a_result_without_its_call_goes_out_byte_for_byte(
    kind: str,
    options: dict[str, Any],
    is_async: bool,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    names = OPENAI if kind.startswith("openai") else ANTHROPIC
    client = make_client(names[is_async], wire)
    history = delta(kind.removesuffix("-beta"))
    before = copy.deepcopy(history)
    await send(client, kind, history, options)
    instrument()
    await send(client, kind, history, options)
    assert wire.statuses == [200, 200]
    assert wire.contents[0] == wire.contents[1]
    assert history == before
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 1
    assert telemetry.total("toolmend.model_calls") == 1


@pytest.mark.parametrize(("kind", "options"), REQUESTS)
async def test_a_call_of_the_new_part_is_answered(
    kind: str, options: dict[str, Any], wire: Wire, instrument: Callable[..., None]
) -> None:
    instrument()
    client = make_client((OPENAI if kind.startswith("openai") else ANTHROPIC)[0], wire)
    wire_format = kind.removesuffix("-beta")
    await send(client, kind, broken(wire_format), options)
    assert wire.history() == toolmend.repair(broken(wire_format), wire_format).messages


@pytest.mark.parametrize(
    ("conversation", "thread"),
    [("conv_1", None), ({"id": "conv_1"}, None), ("conv_1", "our-own")],
    ids=["string", "object", "own-thread-first"],
)
def test_the_conversation_of_responses_is_the_thread(
    conversation: Any,
    thread: str | None,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    client = make_client("OpenAI", wire)
    if not hasattr(client, "conversations"):
        pytest.skip("this version has no conversations")
    instrument()
    ask: Any = client.responses.create
    if thread is None:
        ask(model=MODEL, input=delta("openai-responses"), conversation=conversation)
    else:
        with toolmend.thread(thread):
            ask(model=MODEL, input=delta("openai-responses"), conversation=conversation)
    [span] = telemetry.spans
    assert span.attributes["gen_ai.conversation.id"] == (thread or "conv_1")


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_the_second_turn_of_the_tool_runner_goes_out_as_it_is(
    name: str, instrument: Callable[..., None], telemetry: Captured
) -> None:
    """By default the runner lets the server keep the history; each turn is a model call."""

    def reply(body: dict[str, Any], path: str) -> Reply:
        if len(wires[-1].sent) == 0:
            return Reply("", tool_calls=(ToolCall("search", {"query": "x"}),))
        return Reply("done")

    wires: list[Wire] = []

    async def run() -> Any:
        wires.append(Wire(reply))
        client = make_client(name, wires[-1])
        if not hasattr(client.beta.messages, "tool_runner"):
            pytest.skip("this version has no tool runner")
        if name == "Anthropic":

            @anthropic.beta_tool
            def search(query: str) -> str:
                """Search."""
                return "42"

            runner = client.beta.messages.tool_runner(
                messages=[{"role": "user", "content": "go"}], tools=[search], **CLAUDE
            )
            return runner.until_done()

        @anthropic.beta_async_tool(name="search")
        async def search_async(query: str) -> str:
            """Search."""
            return "42"

        runner = client.beta.messages.tool_runner(
            messages=[{"role": "user", "content": "go"}], tools=[search_async], **CLAUDE
        )
        return await runner.until_done()

    await run()
    instrument()
    assert (await run()).content[0].text == "done"
    plain, ours = wires
    assert plain.statuses == ours.statuses == [200, 200]
    assert plain.contents == ours.contents
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 2
    assert telemetry.total("toolmend.model_calls") == 2
