"""The real Anthropic client against the strict provider."""

from __future__ import annotations

import pytest
from anthropic import (
    Anthropic,
    AsyncAnthropic,
    BadRequestError,
    NotFoundError,
    OverloadedError,
)

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "content": "hi"}
CALLS = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
    ],
}


def results(*call_ids):
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i in call_ids]
    return {"role": "user", "content": blocks}


LEGAL = [USER, CALLS, results("b", "a")]
TWO_CALLS = (
    ToolCall("look", {"city": "Köln", "n": 1}),
    ToolCall("stop", {}, id="toolu_mine"),
)


def call_twice(body, path):
    return Reply("Calling.", tool_calls=TWO_CALLS)


def make_client(provider):
    return Anthropic(base_url=provider.anthropic_base_url, api_key="test", max_retries=0)


def make_async_client(provider):
    return AsyncAnthropic(base_url=provider.anthropic_base_url, api_key="test", max_retries=0)


def body_of(words):
    return {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": words},
        "request_id": "req_000001",
    }


REFUSED = [
    (
        "dangling",
        [USER, CALLS, results("a"), USER],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    (
        "dangling, several",
        [USER, CALLS],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, "
        "b. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message.",
    ),
    (
        "orphan",
        [USER, {"role": "assistant", "content": "x"}, results("z")],
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: z. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    (
        "server orphan",
        [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}],
            },
        ],
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: "
        "s. Each `web_search_tool_result` block must have a corresponding `server_tool_use` block "
        "before it.",
    ),
    (
        "empty content",
        [USER, {"role": "assistant", "content": []}, USER],
        "messages.1: all messages must have non-empty content except for the optional final "
        "assistant message",
    ),
]
REFUSED_ROWS = [pytest.param(*row[1:], id=row[0]) for row in REFUSED]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("history", "words"), REFUSED_ROWS)
def test_an_illegal_history_is_refused(strict_provider, history, words, stream):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError) as failure:
        client.messages.create(model="m", max_tokens=9, messages=history, stream=stream)
    assert failure.value.body == body_of(words)
    assert failure.value.response.json() == body_of(words)
    assert failure.value.request_id == "req_000001"
    assert strict_provider.rejected == 1
    assert strict_provider.requests[0].response == body_of(words)


@pytest.mark.anyio
@pytest.mark.parametrize(("history", "words"), REFUSED_ROWS)
async def test_an_illegal_history_is_refused_async(strict_provider, history, words):
    async with make_async_client(strict_provider) as client:
        with pytest.raises(BadRequestError) as failure:
            await client.messages.create(model="m", max_tokens=9, messages=history)
    assert failure.value.body == body_of(words)


def test_a_legal_history_is_answered(strict_provider):
    with make_client(strict_provider) as client:
        message = client.messages.create(model="m", max_tokens=9, messages=LEGAL)
    assert [block.text for block in message.content] == ["ok"]
    assert (message.id, message.model, message.stop_reason) == ("msg_000001", "m", "end_turn")
    assert message.usage.input_tokens > 0
    (request,) = strict_provider.requests
    assert request.path == "/v1/messages"
    assert "anthropic-version" in request.headers
    assert request.body["messages"] == LEGAL
    assert (request.status, request.response["id"]) == (200, "msg_000001")


def check_blocks(message):
    assert message.stop_reason == "tool_use"
    assert message.content[0].text == "Calling."
    assert [(block.id, block.name, block.input) for block in message.content[1:]] == [
        ("toolu_000001", "look", {"city": "Köln", "n": 1}),
        ("toolu_mine", "stop", {}),
    ]


def test_tool_calls():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        message = client.messages.create(model="m", max_tokens=9, messages=[USER])
        check_blocks(message)
        # The answer is itself sendable once it is answered.
        answer = {"role": "assistant", "content": message.content}
        history = [USER, answer, results("toolu_000001", "toolu_mine")]
        again = client.messages.create(model="m", max_tokens=9, messages=history)
    assert again.content[1].id == "toolu_000002"


def test_tool_calls_without_text():
    def reply(body, path):
        return Reply("", tool_calls=TWO_CALLS[:1])

    with StrictProvider(reply) as provider, make_client(provider) as client:
        message = client.messages.create(model="m", max_tokens=9, messages=[USER])
    assert [block.type for block in message.content] == ["tool_use"]


def test_stream():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        stream = client.messages.create(model="m", max_tokens=9, messages=[USER], stream=True)
        kinds = [event.type for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


def test_stream_helper():
    with (
        StrictProvider(call_twice) as provider,
        make_client(provider) as client,
        client.messages.stream(model="m", max_tokens=9, messages=[USER]) as stream,
    ):
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "Calling."
    assert message.usage.output_tokens > 1
    check_blocks(message)
    assert provider.requests[0].response["stop_reason"] == "tool_use"


@pytest.mark.anyio
async def test_stream_helper_async():
    with StrictProvider(call_twice) as provider:
        async with (
            make_async_client(provider) as client,
            client.messages.stream(model="m", max_tokens=9, messages=[USER]) as stream,
        ):
            message = await stream.get_final_message()
    check_blocks(message)


def test_count_tokens_judges_too(strict_provider):
    with make_client(strict_provider) as client:
        assert client.messages.count_tokens(model="m", messages=LEGAL).input_tokens > 0
        with pytest.raises(BadRequestError, match="without `tool_result` blocks"):
            client.messages.count_tokens(model="m", messages=[USER, CALLS])
    assert strict_provider.rejected == 1
    assert {request.path for request in strict_provider.requests} == {"/v1/messages/count_tokens"}


def test_count_tokens_asks_no_model():
    with StrictProvider(lambda body, path: 1 / 0) as provider, make_client(provider) as client:
        assert client.messages.count_tokens(model="m", messages=LEGAL).input_tokens > 0


def test_beta_path(strict_provider):
    with make_client(strict_provider) as client:
        client.beta.messages.create(model="m", max_tokens=9, messages=LEGAL)
    assert strict_provider.requests[0].path == "/v1/messages"


GOOD = {"model": "m", "max_tokens": 9, "messages": [USER]}
PLAIN_FAULTS = [
    ("no model", {**GOOD, "model": None}, "model: Field required"),
    ("no max_tokens", {"model": "m", "messages": [USER]}, "max_tokens: Field required"),
    (
        "max_tokens too small",
        {**GOOD, "max_tokens": 0},
        "max_tokens: Input should be greater than or equal to 1",
    ),
    ("no messages", {**GOOD, "messages": None}, "messages: Field required"),
    (
        "empty messages",
        {**GOOD, "messages": []},
        "messages: at least one message is required",
    ),
    (
        "messages no list",
        {**GOOD, "messages": {}},
        "messages: Input should be a valid list",
    ),
    (
        "message no object",
        {**GOOD, "messages": ["x"]},
        "messages.0: Input should be an object",
    ),
    (
        "unknown role beside a dangling call",
        {**GOOD, "messages": [USER, CALLS, {"role": "tool", "content": "x"}]},
        "messages.2.role: Input should be 'user', 'assistant' or 'system'",
    ),
    (
        "no content",
        {**GOOD, "messages": [{"role": "user"}]},
        "messages.0.content: Field required",
    ),
    (
        "odd content",
        {**GOOD, "messages": [{"role": "user", "content": 3}]},
        "messages.0.content: Input should be a valid list",
    ),
]


@pytest.mark.parametrize(
    ("body", "words"), [pytest.param(*row[1:], id=row[0]) for row in PLAIN_FAULTS]
)
def test_plain_faults_are_no_rejections(strict_provider, body, words):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError) as failure:
        client.post("/v1/messages", body=body, cast_to=object)
    assert failure.value.body == body_of(words)
    assert strict_provider.rejected == 0


def test_count_tokens_has_plain_faults(strict_provider):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError, match="model"):
        client.post("/v1/messages/count_tokens", body={"messages": [USER]}, cast_to=object)


def test_unknown_path(strict_provider):
    with make_client(strict_provider) as client, pytest.raises(NotFoundError) as failure:
        client.models.list()
    assert failure.value.body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "Invalid URL (GET /v1/models)"},
        "request_id": "req_000001",
    }


def test_errors_on_demand():
    def reply(body, path):
        return Reply(error="Overloaded", status=529)

    with (
        StrictProvider(reply) as provider,
        make_client(provider) as client,
        pytest.raises(OverloadedError) as failure,
    ):
        client.messages.create(model="m", max_tokens=9, messages=[USER])
    assert failure.value.body["error"] == {"type": "overloaded_error", "message": "Overloaded"}
