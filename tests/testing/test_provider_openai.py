"""The real OpenAI client against the strict provider."""

from __future__ import annotations

import pytest
from openai import (
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    RateLimitError,
)

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "content": "hi"}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ],
}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "r"}
LEGAL = [USER, CALLS, RESULT, {**RESULT, "tool_call_id": "b"}, USER]
WORDS = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. "
)
TWO_CALLS = (
    ToolCall("look", {"city": "Köln", "n": 1}),
    ToolCall("stop", {}, id="call_mine"),
)


def call_twice(body, path):
    return Reply("Calling.", tool_calls=TWO_CALLS)


def make_client(provider):
    return OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)


def make_async_client(provider):
    return AsyncOpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)


REFUSED = [
    (
        "dangling",
        "openai",
        [USER, CALLS, RESULT, USER],
        WORDS + "The following tool_call_ids did not have response messages: b",
        "messages.[1].role",
    ),
    (
        "dangling, several",
        "openai",
        [USER, CALLS],
        WORDS + "The following tool_call_ids did not have response messages: a, b",
        "messages.[1].role",
    ),
    (
        "dangling on a compatible host",
        "compatible",
        [USER, CALLS],
        WORDS + "(insufficient tool messages following tool_calls message)",
        None,
    ),
    *[
        (
            f"orphan, {flavour}",
            flavour,
            [USER, RESULT],
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            "messages.[1].role",
        )
        for flavour in ("openai", "compatible")
    ],
    (
        "empty tool_calls",
        "openai",
        [USER, {"role": "assistant", "content": "x", "tool_calls": []}],
        "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, "
        "but got an empty array instead.",
        "messages[1].tool_calls",
    ),
    (
        "pairing is told before other faults",
        "openai",
        [{"role": "assistant", "content": None}, RESULT],
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'.",
        "messages.[1].role",
    ),
]
REFUSED_ROWS = [pytest.param(*row[1:], id=row[0]) for row in REFUSED]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("flavour", "history", "words", "param"), REFUSED_ROWS)
def test_an_illegal_history_is_refused(flavour, history, words, param, stream):
    with (
        StrictProvider(flavour=flavour) as provider,
        make_client(provider) as client,
        pytest.raises(BadRequestError) as failure,
    ):
        client.chat.completions.create(model="m", messages=history, stream=stream)
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": None}
    assert failure.value.body == error
    assert failure.value.response.json() == {"error": error}
    assert failure.value.request_id == "req_000001"
    assert provider.rejected == 1
    assert provider.requests[0].status == 400
    assert provider.requests[0].response == {"error": error}
    assert provider.requests[0].problems


@pytest.mark.anyio
@pytest.mark.parametrize(("flavour", "history", "words", "param"), REFUSED_ROWS)
async def test_an_illegal_history_is_refused_async(flavour, history, words, param):
    with StrictProvider(flavour=flavour) as provider:
        async with make_async_client(provider) as client:
            with pytest.raises(BadRequestError) as failure:
                await client.chat.completions.create(model="m", messages=history)
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": None}
    assert failure.value.body == error


def test_a_legal_history_is_answered(strict_provider):
    with make_client(strict_provider) as client:
        completion = client.chat.completions.create(model="m", messages=LEGAL)
    assert completion.choices[0].message.content == "ok"
    assert completion.choices[0].message.tool_calls is None
    assert completion.choices[0].finish_reason == "stop"
    assert (completion.id, completion.model) == ("chatcmpl_000001", "m")
    assert completion.usage.total_tokens > completion.usage.prompt_tokens > 0
    assert strict_provider.rejected == 0
    (request,) = strict_provider.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer test"
    assert request.body["messages"] == LEGAL
    assert request.status == 200
    assert request.response["id"] == "chatcmpl_000001"


def check_calls(calls):
    assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
        ("call_000001", "look", '{"city": "K\\u00f6ln", "n": 1}'),
        ("call_mine", "stop", "{}"),
    ]


def test_tool_calls():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        completion = client.chat.completions.create(model="m", messages=[USER])
        message = completion.choices[0].message
        assert message.content == "Calling."
        assert completion.choices[0].finish_reason == "tool_calls"
        check_calls(message.tool_calls)
        # The answer is itself sendable once it is answered.
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "r"} for call in message.tool_calls
        ]
        again = client.chat.completions.create(model="m", messages=[USER, message, *results])
    assert again.choices[0].message.tool_calls[0].id == "call_000002"


def join(chunks):
    text, names, arguments, reasons = "", {}, {}, []
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
            for call in choice.delta.tool_calls or []:
                if call.id:
                    names[call.index] = (call.id, call.function.name)
                arguments[call.index] = arguments.get(call.index, "") + call.function.arguments
    return text, names, arguments, reasons


JOINED = (
    "Calling.",
    {0: ("call_000001", "look"), 1: ("call_mine", "stop")},
    {0: '{"city": "K\\u00f6ln", "n": 1}', 1: "{}"},
    ["tool_calls"],
)


def test_stream():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        chunks = list(client.chat.completions.create(model="m", messages=[USER], stream=True))
    assert join(chunks) == JOINED
    assert {chunk.id for chunk in chunks} == {"chatcmpl_000001"}
    assert provider.requests[0].response["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.anyio
async def test_stream_async():
    with StrictProvider(call_twice) as provider:
        async with make_async_client(provider) as client:
            stream = await client.chat.completions.create(model="m", messages=[USER], stream=True)
            chunks = [chunk async for chunk in stream]
    assert join(chunks) == JOINED


def test_stream_with_usage(strict_provider):
    with make_client(strict_provider) as client:
        chunks = list(
            client.chat.completions.create(
                model="m",
                messages=[USER],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    assert join(chunks) == ("ok", {}, {}, ["stop"])
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_stream_helper():
    with (
        StrictProvider(call_twice) as provider,
        make_client(provider) as client,
        client.chat.completions.stream(model="m", messages=[USER]) as stream,
    ):
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert completion.choices[0].message.content == "Calling."
    check_calls(completion.choices[0].message.tool_calls)


@pytest.mark.anyio
async def test_stream_helper_async():
    with StrictProvider(call_twice) as provider:
        async with (
            make_async_client(provider) as client,
            client.chat.completions.stream(model="m", messages=[USER]) as stream,
        ):
            completion = await stream.get_final_completion()
    check_calls(completion.choices[0].message.tool_calls)


PLAIN_FAULTS = [
    ("no model", {"model": "", "messages": [USER]}, "model", None),
    ("no messages", {"model": "m", "messages": None}, "Missing required", "messages"),
    ("empty messages", {"model": "m", "messages": []}, "empty array", "messages"),
    ("messages no list", {"model": "m", "messages": "hi"}, "array of objects", "messages"),
    ("message no object", {"model": "m", "messages": [USER, "x"]}, "object", "messages[1]"),
    (
        "unknown role beside a dangling call",
        {"model": "m", "messages": [{"role": "reviewer", "content": "x"}, CALLS]},
        "Invalid value: 'reviewer'. Supported values are: 'system', 'assistant', 'user', "
        "'function', 'tool', and 'developer'.",
        "messages[0].role",
    ),
    ("no role", {"model": "m", "messages": [{"content": "x"}]}, "Invalid", "messages[0].role"),
]


@pytest.mark.parametrize(
    ("body", "words", "param"), [pytest.param(*row[1:], id=row[0]) for row in PLAIN_FAULTS]
)
def test_plain_faults_are_no_rejections(strict_provider, body, words, param):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError) as failure:
        client.post("/chat/completions", body=body, cast_to=object)
    assert words in failure.value.body["message"]
    assert failure.value.param == param
    assert failure.value.type == "invalid_request_error"
    assert strict_provider.rejected == 0
    assert strict_provider.requests[0].problems == ()


def test_unknown_path(strict_provider):
    with make_client(strict_provider) as client, pytest.raises(NotFoundError) as failure:
        client.embeddings.create(model="m", input="hi")
    assert failure.value.body["message"] == "Invalid URL (POST /v1/embeddings)"


@pytest.mark.parametrize(
    ("reply", "error", "kind"),
    [
        (Reply(error="slow down", status=429), RateLimitError, "rate_limit_error"),
        (Reply(error="down"), InternalServerError, "server_error"),
        (Reply(error="odd", status=400), BadRequestError, "invalid_request_error"),
        (Reply(status=503), InternalServerError, "server_error"),
    ],
)
def test_errors_on_demand(reply, error, kind):
    with (
        StrictProvider(lambda body, path: reply) as provider,
        make_client(provider) as client,
        pytest.raises(error) as failure,
    ):
        client.chat.completions.create(model="m", messages=[USER])
    assert failure.value.body == {
        "message": reply.error or "status 503",
        "type": kind,
        "param": None,
        "code": None,
    }
    assert provider.rejected == 0
