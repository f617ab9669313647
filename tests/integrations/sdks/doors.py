"""Doors: all the ways of an SDK to ask a model, each taken with a sync or an async client alike."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

MODEL = "model-x"
CLAUDE: dict[str, Any] = {"model": MODEL, "max_tokens": 10}


async def done(value: Any) -> Any:
    """Return what a call of a sync or an async client gives."""
    return await value if inspect.isawaitable(value) else value


async def items(stream: Any) -> list[Any]:
    """Read a stream to its end."""
    # Not its type: the stand-ins of other instrumentations can do both.
    if hasattr(stream.__class__, "__aiter__"):
        return [item async for item in stream]
    return list(stream)


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """Enter a context manager, sync or async."""
    if hasattr(type(manager), "__aenter__"):
        async with manager as inside:
            yield inside
    else:
        with manager as inside:
            yield inside


@dataclass(frozen=True)
class Door:
    """One way to ask.

    Attributes:
        id: name of the test.
        format: of the history.
        needs: what the client must have.
        go: asks, and reads the answer to its end; returns its text, None where there is none.
        is_counted: whether it asks a model.
    """

    id: str
    format: str
    needs: str
    go: Callable[[Any, Any], Awaitable[Any]]
    is_counted: bool = True

    async def ask(self, client: Any, history: Any) -> Any:
        found = client
        for name in self.needs.split("."):
            found = getattr(found, name, None)
            if found is None:
                pytest.skip(f"this version has no {self.needs}")
        return await self.go(client, history)


def _chat_text(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def _chat_create(client: Any, history: Any) -> Any:
    answer = await done(client.chat.completions.create(model=MODEL, messages=history))
    return answer.choices[0].message.content


async def _chat_stream(client: Any, history: Any) -> Any:
    stream = client.chat.completions.create(model=MODEL, messages=history, stream=True)
    return _chat_text(await items(await done(stream)))


async def _chat_stream_in_with(client: Any, history: Any) -> Any:
    stream = client.chat.completions.create(model=MODEL, messages=history, stream=True)
    async with entered(await done(stream)) as chunks:
        return _chat_text(await items(chunks))


def _chat_helper(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def go(client: Any, history: Any) -> Any:
        completions = client.chat.completions if part == "chat" else client.beta.chat.completions
        async with entered(completions.stream(model=MODEL, messages=history)) as events:
            await items(events)
            answer = await done(events.get_final_completion())
        return answer.choices[0].message.content

    return go


def _chat_parse(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def go(client: Any, history: Any) -> Any:
        completions = client.chat.completions if part == "chat" else client.beta.chat.completions
        answer = await done(completions.parse(model=MODEL, messages=history))
        return answer.choices[0].message.content

    return go


async def _chat_raw(client: Any, history: Any) -> Any:
    raw = client.chat.completions.with_raw_response
    answer = await done(raw.create(model=MODEL, messages=history))
    assert answer.status_code == 200
    return answer.parse().choices[0].message.content


async def _chat_raw_stream(client: Any, history: Any) -> Any:
    raw = client.chat.completions.with_raw_response
    answer = await done(raw.create(model=MODEL, messages=history, stream=True))
    return _chat_text(await items(answer.parse()))


async def _chat_streaming_response(client: Any, history: Any) -> Any:
    streaming = client.chat.completions.with_streaming_response
    async with entered(streaming.create(model=MODEL, messages=history)) as response:
        answer = await done(response.parse())
    return answer.choices[0].message.content


async def _chat_copy(client: Any, history: Any) -> Any:
    return await _chat_create(client.with_options(timeout=9), history)


async def _chat_post(client: Any, history: Any) -> Any:
    body = {"model": MODEL, "messages": history}
    answer = await done(client.post("/chat/completions", cast_to=object, body=body))
    return answer["choices"][0]["message"]["content"]


async def _chat_extra_body(client: Any, history: Any) -> Any:
    create = client.chat.completions.create
    answer = await done(create(model=MODEL, messages=[], extra_body={"messages": history}))
    return answer.choices[0].message.content


async def _chat_generator(client: Any, history: Any) -> Any:
    create = client.chat.completions.create
    answer = await done(create(model=MODEL, messages=(message for message in history)))
    return answer.choices[0].message.content


async def _responses_create(client: Any, history: Any) -> Any:
    return (await done(client.responses.create(model=MODEL, input=history))).output_text


async def _responses_beta(client: Any, history: Any) -> Any:
    answer = await done(client.beta.responses.create(model=MODEL, input=history))
    return answer.output[0].content[0].text


async def _responses_stream(client: Any, history: Any) -> Any:
    stream = await done(client.responses.create(model=MODEL, input=history, stream=True))
    return (await items(stream))[-1].response.output[0].content[0].text


async def _responses_helper(client: Any, history: Any) -> Any:
    async with entered(client.responses.stream(model=MODEL, input=history)) as events:
        await items(events)
        return (await done(events.get_final_response())).output_text


async def _responses_parse(client: Any, history: Any) -> Any:
    return (await done(client.responses.parse(model=MODEL, input=history))).output_text


async def _responses_raw(client: Any, history: Any) -> Any:
    raw = client.responses.with_raw_response
    return (await done(raw.create(model=MODEL, input=history))).parse().output_text


async def _responses_tokens(client: Any, history: Any) -> Any:
    answer = await done(client.responses.input_tokens.count(model=MODEL, input=history))
    assert answer.input_tokens == 7


async def _responses_compact(client: Any, history: Any) -> Any:
    answer = await done(client.responses.compact(model=MODEL, input=history))
    assert answer.object == "response.compaction"


CHAT = (
    Door("create", "openai-chat", "chat.completions", _chat_create),
    Door("stream", "openai-chat", "chat.completions", _chat_stream),
    Door("stream-in-with", "openai-chat", "chat.completions", _chat_stream_in_with),
    Door("stream-helper", "openai-chat", "chat.completions.stream", _chat_helper("chat")),
    Door("beta-helper", "openai-chat", "beta.chat.completions.stream", _chat_helper("beta")),
    Door("parse", "openai-chat", "chat.completions.parse", _chat_parse("chat")),
    Door("beta-parse", "openai-chat", "beta.chat.completions.parse", _chat_parse("beta")),
    Door("raw", "openai-chat", "chat.completions", _chat_raw),
    Door("raw-stream", "openai-chat", "chat.completions", _chat_raw_stream),
    Door("streaming-response", "openai-chat", "chat.completions", _chat_streaming_response),
    Door("copy-of-client", "openai-chat", "chat.completions", _chat_copy),
    Door("post", "openai-chat", "post", _chat_post),
    Door("extra-body", "openai-chat", "chat.completions", _chat_extra_body),
    Door("generator", "openai-chat", "chat.completions", _chat_generator),
)
RESPONSES = (
    Door("responses", "openai-responses", "responses", _responses_create),
    Door("responses-beta", "openai-responses", "beta.responses", _responses_beta),
    Door("responses-stream", "openai-responses", "responses", _responses_stream),
    Door("responses-helper", "openai-responses", "responses.stream", _responses_helper),
    Door("responses-parse", "openai-responses", "responses.parse", _responses_parse),
    Door("responses-raw", "openai-responses", "responses", _responses_raw),
    Door("responses-compact", "openai-responses", "responses.compact", _responses_compact),
    Door(
        "input-tokens",
        "openai-responses",
        "responses.input_tokens",
        _responses_tokens,
        is_counted=False,
    ),
)


def _claude(part: str) -> Callable[[Any], Any]:
    return lambda client: client.messages if part == "messages" else client.beta.messages


def _messages_create(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    messages = _claude(part)

    async def go(client: Any, history: Any) -> Any:
        answer = await done(messages(client).create(messages=history, **CLAUDE))
        return answer.content[0].text

    return go


def _messages_stream(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    messages = _claude(part)

    async def go(client: Any, history: Any) -> Any:
        stream = await done(messages(client).create(messages=history, stream=True, **CLAUDE))
        events = await items(stream)
        assert events[-1].type == "message_stop"
        deltas = [event for event in events if event.type == "content_block_delta"]
        return "".join(event.delta.text for event in deltas)

    return go


def _messages_helper(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    messages = _claude(part)

    async def go(client: Any, history: Any) -> Any:
        async with entered(messages(client).stream(messages=history, **CLAUDE)) as stream:
            text = "".join(await items(stream.text_stream))
            assert (await done(stream.get_final_message())).content[0].text == text
        return text

    return go


def _messages_parse(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    messages = _claude(part)

    async def go(client: Any, history: Any) -> Any:
        answer = await done(messages(client).parse(messages=history, **CLAUDE))
        return answer.content[0].text

    return go


def _messages_tokens(part: str) -> Callable[[Any, Any], Awaitable[Any]]:
    messages = _claude(part)

    async def go(client: Any, history: Any) -> Any:
        answer = await done(messages(client).count_tokens(model=MODEL, messages=history))
        assert answer.input_tokens > 0

    return go


async def _messages_raw(client: Any, history: Any) -> Any:
    raw = client.messages.with_raw_response
    answer = await done((await done(raw.create(messages=history, **CLAUDE))).parse())
    return answer.content[0].text


async def _messages_streaming_response(client: Any, history: Any) -> Any:
    streaming = client.messages.with_streaming_response
    async with entered(streaming.create(messages=history, **CLAUDE)) as response:
        return (await done(response.parse())).content[0].text


async def _messages_copy(client: Any, history: Any) -> Any:
    return await _messages_create("messages")(client.with_options(timeout=9), history)


async def _messages_extra_body(client: Any, history: Any) -> Any:
    create = client.messages.create
    answer = await done(create(messages=[], extra_body={"messages": history}, **CLAUDE))
    return answer.content[0].text


async def _tool_runner(client: Any, history: Any) -> Any:
    runner = client.beta.messages.tool_runner(messages=history, tools=[], **CLAUDE)
    return (await done(runner.until_done())).content[0].text


MESSAGES = (
    Door("create", "anthropic", "messages", _messages_create("messages")),
    Door("beta", "anthropic", "beta.messages", _messages_create("beta")),
    Door("stream", "anthropic", "messages", _messages_stream("messages")),
    Door("beta-stream", "anthropic", "beta.messages", _messages_stream("beta")),
    Door("stream-helper", "anthropic", "messages.stream", _messages_helper("messages")),
    Door("beta-helper", "anthropic", "beta.messages.stream", _messages_helper("beta")),
    Door("parse", "anthropic", "messages.parse", _messages_parse("messages")),
    Door("beta-parse", "anthropic", "beta.messages.parse", _messages_parse("beta")),
    Door("raw", "anthropic", "messages", _messages_raw),
    Door("streaming-response", "anthropic", "messages", _messages_streaming_response),
    Door("copy-of-client", "anthropic", "messages", _messages_copy),
    Door("extra-body", "anthropic", "messages", _messages_extra_body),
    Door("tool-runner", "anthropic", "beta.messages.tool_runner", _tool_runner),
    Door("count-tokens", "anthropic", "messages", _messages_tokens("messages"), is_counted=False),
    Door(
        "beta-count-tokens",
        "anthropic",
        "beta.messages",
        _messages_tokens("beta"),
        is_counted=False,
    ),
)
