"""The newest clients, decorated: what their provider refuses as it is goes through, and telemetry says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
import openai
import pytest
from anthropic import Anthropic
from botocore.config import Config
from botocore.exceptions import ClientError
from google import genai
from google.genai import errors, types

import toolmend
from tests.unit.telemetry_capture import Captured
from toolmend.testing import Reply, StrictProvider, ToolCall

pytestmark = pytest.mark.anyio


def reply(_: dict[str, Any], __: str) -> Reply:
    return Reply("Done.")


@pytest.fixture
def provider() -> Any:
    with StrictProvider(reply) as provider:
        yield provider


@dataclass
class Client:
    """A bound method of a client, what it takes, and how it refuses."""

    call: Callable[..., Any]
    history: list[Any]
    options: dict[str, Any]
    field: str
    error: type[Exception]
    provider: str
    owner: Any
    tool: str = "search"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.owner.close()

    def __call__(self, call: Callable[..., Any]) -> Any:
        answer = call(**{self.field: self.history}, **self.options)
        if not hasattr(answer, "__next__") and not hasattr(answer, "__iter__"):
            return answer
        return list(answer) if not isinstance(answer, dict) else answer


def responses(provider: StrictProvider, stream: bool) -> Client:
    client = openai.OpenAI(base_url=provider.openai_base_url, api_key="t", max_retries=0)
    call = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}
    history = [{"role": "user", "content": "go"}, call, {"role": "user", "content": "well?"}]
    options = {"model": "m-1", "stream": stream}
    return Client(
        client.responses.create,
        history,
        options,
        "input",
        openai.BadRequestError,
        "openai",
        owner=client,
    )


def gemini(provider: StrictProvider, stream: bool) -> Client:
    client = genai.Client(
        api_key="t", http_options=types.HttpOptions(base_url=provider.gemini_base_url)
    )
    call = types.Part(function_call=types.FunctionCall(name="search", args={}))
    history = [
        types.Content(role="user", parts=[types.Part(text="go")]),
        types.Content(role="model", parts=[call]),
        types.Content(role="user", parts=[types.Part(text="well?")]),
    ]
    models: Any = client.models
    method = models.generate_content_stream if stream else models.generate_content
    return Client(
        method,
        history,
        {"model": "m-1"},
        "contents",
        errors.ClientError,
        "gcp.gemini",
        owner=client,
    )


def bedrock(provider: StrictProvider, stream: bool) -> Client:
    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=provider.bedrock_endpoint_url,
        aws_access_key_id="t",
        aws_secret_access_key="t",
        config=Config(retries={"total_max_attempts": 1}),
    )
    use = {"toolUse": {"toolUseId": "tooluse_1", "name": "search", "input": {}}}
    history = [
        {"role": "user", "content": [{"text": "go"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"text": "well?"}]},
    ]
    method = client.converse_stream if stream else client.converse
    return Client(
        method,
        history,
        {"modelId": "m-1"},
        "messages",
        ClientError,
        "aws.bedrock",
        owner=client,
    )


CLIENTS = {"responses": responses, "gemini": gemini, "bedrock": bedrock}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_what_is_refused_as_it_is_goes_through_decorated(
    make: Callable[[StrictProvider, bool], Client],
    stream: bool,
    provider: StrictProvider,
    telemetry: Captured,
) -> None:
    with make(provider, stream) as client:
        with pytest.raises(client.error):
            client(client.call)
        assert provider.rejected == 1
        before = list(client.history)
        client(toolmend.model_call(client.call))

    assert provider.rejected == 1
    assert all(one is two for one, two in zip(client.history, before, strict=True))
    named = {"model": "m-1", "provider": client.provider}
    assert telemetry.total("toolmend.model_calls", outcome="repaired", **named) == 1
    counted = {**named, "tool": client.tool}
    assert telemetry.total("toolmend.tool_calls.requested", **counted) == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first", **counted) == 1


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_a_refusal_of_what_was_only_observed_is_counted(
    make: Callable[[StrictProvider, bool], Client], provider: StrictProvider, telemetry: Captured
) -> None:
    watch = toolmend.Policy(mode="observe")
    with make(provider, False) as client, pytest.raises(client.error):
        client(toolmend.model_call(client.call, policy=watch))
    assert telemetry.total("toolmend.rejections", provider=client.provider) == 1


async def test_the_async_client_of_responses(provider: StrictProvider) -> None:
    with responses(provider, False) as made:
        history = made.history
    async with openai.AsyncOpenAI(
        base_url=provider.openai_base_url, api_key="t", max_retries=0
    ) as client:
        create: Any = toolmend.model_call(client.responses.create)
        answer = await create(model="m-1", input=history)
    assert answer.output_text == "Done."


async def test_the_async_client_of_gemini(provider: StrictProvider) -> None:
    with gemini(provider, False) as made:
        history = made.history
    options = types.HttpOptions(base_url=provider.gemini_base_url)
    client = genai.Client(api_key="t", http_options=options)
    ask: Any = toolmend.model_call(client.aio.models.generate_content)
    answer = await ask(model="m-1", contents=history)
    assert answer.text == "Done."
    await client.aio.aclose()
    client.close()


def test_a_response_that_continues_another_is_left_alone(telemetry: Captured) -> None:
    """The call lies on the server; the list holds its output alone."""

    def answer(body: dict[str, Any], _: str) -> Reply:
        if body.get("previous_response_id"):
            return Reply("Done.")
        return Reply("", tool_calls=(ToolCall("search", {"q": "x"}),))

    with (
        StrictProvider(answer) as provider,
        openai.OpenAI(base_url=provider.openai_base_url, api_key="t", max_retries=0) as client,
    ):
        create: Any = toolmend.model_call(client.responses.create)
        first = create(model="m-1", input="go")
        [call] = [item for item in first.output if item.type == "function_call"]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
        sent = [output]
        second = create(model="m-1", input=sent, previous_response_id=first.id)

    assert second.output_text == "Done."
    assert sent == [output]
    assert telemetry.total("toolmend.model_calls", outcome="clean") == 1


def test_an_anthropic_thread_that_continues_is_left_alone() -> None:
    """The provider here keeps no threads: what matters is what goes out."""
    with StrictProvider(reply) as provider:
        client = Anthropic(base_url=provider.anthropic_base_url, api_key="t", max_retries=0)
        create: Any = toolmend.model_call(client.messages.create)
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}
        sent = [{"role": "user", "content": [block]}]
        thread = {"type": "continue", "previous_message_id": "msg_1"}
        try:
            create(model="m-1", max_tokens=9, messages=sent, extra_body={"thread": thread})
        except Exception:  # noqa: BLE001, S110 - the answer is not what is looked at
            pass
        client.close()
        [request] = provider.requests
    assert request.body["messages"] == sent
