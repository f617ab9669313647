"""The real OpenAI client against `/v1/responses` of the strict provider."""

from __future__ import annotations

import json

import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError, OpenAI, RateLimitError

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "r"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
TWO_CALLS = (
    ToolCall("look", {"city": "Köln", "n": 1}),
    ToolCall("stop", {}, id="call_mine"),
)


def call_twice(body, path):
    return Reply("Calling.", tool_calls=TWO_CALLS)


def make_client(provider):
    return OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)


REFUSED = [
    ("dangling", [USER, CALL, USER], "No tool output found for function call a.", "input", None),
    (
        "orphan",
        [USER, OUTPUT],
        "No tool call found for function call output with call_id a.",
        "input",
        None,
    ),
    (
        "pairing is told before other faults",
        [{**CALL, "name": ""}, USER],
        "No tool output found for function call a.",
        "input",
        None,
    ),
    (
        "reasoning",
        [USER, REASONING, USER],
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "input",
        None,
    ),
    (
        "item id",
        [{**CALL, "id": "call_1"}, OUTPUT],
        "Invalid 'input[0].id': 'call_1'. Expected an ID that begins with 'fc'.",
        "input[0].id",
        "invalid_value",
    ),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("history", "words", "param", "code"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED]
)
def test_an_illegal_history_is_refused(strict_provider, history, words, param, code, stream):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError) as failure:
        client.responses.create(model="m", input=history, stream=stream)
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": code}
    assert failure.value.response.json() == {"error": error}
    assert failure.value.request_id == "req_000001"
    assert strict_provider.rejected == 1
    assert strict_provider.requests[0].problems


@pytest.mark.parametrize("given", ["hi", [USER], [USER, CALL, OUTPUT]], ids=repr)
def test_a_legal_history_is_answered(strict_provider, given):
    with make_client(strict_provider) as client:
        response = client.responses.create(model="m", input=given)
    assert response.output_text == "ok"
    assert (response.id, response.model, response.status) == ("resp_000001", "m", "completed")
    assert response.usage.total_tokens > response.usage.input_tokens > 0
    assert strict_provider.rejected == 0
    assert strict_provider.requests[0].path == "/v1/responses"


def check_output(response):
    message, *calls = response.output
    assert message.content[0].text == "Calling."
    assert [(call.id, call.call_id, call.name, call.arguments) for call in calls] == [
        ("fc_000001", "call_000001", "look", '{"city": "K\\u00f6ln", "n": 1}'),
        ("fc_000002", "call_mine", "stop", "{}"),
    ]


def test_calls_are_answered_by_hand():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        response = client.responses.create(model="m", input=[USER])
        check_output(response)
        outputs = [{**OUTPUT, "call_id": call.call_id} for call in response.output[1:]]
        again = client.responses.create(model="m", input=[USER, *response.output, *outputs])
        assert again.id == "resp_000002"
        with pytest.raises(BadRequestError, match="function call call_mine"):
            client.responses.create(model="m", input=[USER, *response.output, outputs[0]])


def test_calls_without_text():
    with (
        StrictProvider(lambda body, path: Reply("", tool_calls=TWO_CALLS)) as provider,
        make_client(provider) as client,
    ):
        response = client.responses.create(model="m", input="hi")
    assert [item.type for item in response.output] == ["function_call", "function_call"]


def test_stream():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        events = list(client.responses.create(model="m", input="hi", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    check_output(events[-1].response)

    def join(kind):
        return "".join(event.delta for event in events if event.type == kind)

    assert join("response.output_text.delta") == "Calling."
    arguments = join("response.function_call_arguments.delta")
    assert arguments == '{"city": "K\\u00f6ln", "n": 1}{}'
    assert provider.requests[0].response["status"] == "completed"


def test_stream_helper():
    with (
        StrictProvider(call_twice) as provider,
        make_client(provider) as client,
        client.responses.stream(model="m", input="hi") as stream,
    ):
        kinds = {event.type for event in stream}
        check_output(stream.get_final_response())
    assert "response.function_call_arguments.done" in kinds


@pytest.mark.anyio
async def test_async():
    with StrictProvider(call_twice) as provider:
        async with AsyncOpenAI(
            base_url=provider.openai_base_url, api_key="test", max_retries=0
        ) as client:
            check_output(await client.responses.create(model="m", input="hi"))
            stream = await client.responses.create(model="m", input="hi", stream=True)
            kinds = [event.type async for event in stream]
            with pytest.raises(BadRequestError):
                await client.responses.create(model="m", input=[CALL])
    assert kinds[-1] == "response.completed"


# -- what the server holds -----------------------------------------------------------------------


def call_at_first(body, path):
    return call_twice(body, path) if body.get("previous_response_id") is None else Reply("Done.")


@pytest.fixture
def chain():
    """A provider that called twice, its client and its answer."""
    with StrictProvider(call_at_first) as provider, make_client(provider) as client:
        yield provider, client, client.responses.create(model="m", input="hi")


def answers(*call_ids):
    return [{**OUTPUT, "call_id": call_id} for call_id in call_ids]


def test_outputs_for_the_calls_of_a_stored_answer(chain):
    provider, client, first = chain
    given = answers("call_000001", "call_mine")
    second = client.responses.create(model="m", input=given, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    client.responses.create(model="m", input="go on", previous_response_id=second.id)
    assert provider.rejected == 0
    with pytest.raises(BadRequestError, match="Duplicate function call output"):
        client.responses.create(model="m", input=given, previous_response_id=second.id)
    assert [problem.index for problem in provider.requests[-1].problems] == [0, 1]


def test_a_call_of_a_stored_answer_stays_open(chain):
    _, client, first = chain
    with pytest.raises(BadRequestError, match="No tool output found for function call call_mine"):
        client.responses.create(
            model="m", input=answers("call_000001"), previous_response_id=first.id
        )
    with pytest.raises(BadRequestError, match="function call call_000001"):
        client.responses.create(model="m", input="go on", previous_response_id=first.id)


def test_faults_of_the_new_items_are_told_by_their_own_place(chain):
    provider, client, first = chain
    given = [*answers("call_000001", "call_mine"), {**CALL, "name": ""}, OUTPUT]
    with pytest.raises(BadRequestError) as failure:
        client.responses.create(model="m", input=given, previous_response_id=first.id)
    assert failure.value.param == "input[2].name"
    (problem,) = provider.requests[-1].problems
    assert (problem.kind, problem.index) == ("nameless_call", 2)
    with pytest.raises(BadRequestError, match="call_id z"):
        client.responses.create(
            model="m",
            input=answers("call_000001", "call_mine", "z"),
            previous_response_id=first.id,
        )
    assert [problem.index for problem in provider.requests[-1].problems] == [2]


@pytest.mark.parametrize("previous", ["resp_999999", ""])
def test_an_answer_that_is_not_stored(chain, previous):
    provider, client, _ = chain
    with pytest.raises(BadRequestError) as failure:
        client.responses.create(model="m", input="hi", previous_response_id=previous)
    assert failure.value.code == "previous_response_not_found"
    assert provider.rejected == 0


def test_store_false_is_not_stored(strict_provider):
    with make_client(strict_provider) as client:
        first = client.responses.create(model="m", input="hi", store=False)
        with pytest.raises(BadRequestError, match=f"'{first.id}' not found"):
            client.responses.create(model="m", input="hi", previous_response_id=first.id)


def test_a_conversation_and_a_reference(strict_provider):
    with make_client(strict_provider) as client:
        client.responses.create(model="m", input=[OUTPUT], conversation="conv_1")
        reference = {"type": "item_reference", "id": "fc_9"}
        client.responses.create(model="m", input=[reference, OUTPUT])
        with pytest.raises(BadRequestError):
            client.responses.create(model="m", input=[CALL], conversation="conv_1")


PLAIN_FAULTS = [
    ("no model", {"input": "hi"}, "model"),
    ("no input", {"model": "m"}, "input"),
    ("input no list", {"model": "m", "input": {}}, "input"),
    ("item no object", {"model": "m", "input": [USER, "x"]}, "input[1]"),
    ("no role", {"model": "m", "input": [{"content": "x"}]}, "input[0].role"),
    ("unknown role", {"model": "m", "input": [{"role": "tool", "id": "x"}]}, "input[0].role"),
    ("message without role", {"model": "m", "input": [{"type": "message"}]}, "input[0].role"),
    ("type no text", {"model": "m", "input": [{"type": 7}]}, "input[0].type"),
    (
        "previous no text",
        {"model": "m", "input": "hi", "previous_response_id": [1]},
        "previous_response_id",
    ),
]


@pytest.mark.parametrize(
    ("body", "param"), [pytest.param(*row[1:], id=row[0]) for row in PLAIN_FAULTS]
)
def test_plain_faults_are_no_rejections(strict_provider, body, param):
    with make_client(strict_provider) as client, pytest.raises(BadRequestError) as failure:
        client.post("/responses", body=body, cast_to=object)
    assert failure.value.param == param
    assert strict_provider.rejected == 0


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(error="slow down", status=429), RateLimitError),
        (Reply(error="down"), InternalServerError),
    ],
)
def test_errors_on_demand(reply, error):
    with (
        StrictProvider(lambda body, path: reply) as provider,
        make_client(provider) as client,
        pytest.raises(error, match=reply.error),
    ):
        client.responses.create(model="m", input="hi")
    assert json.loads(json.dumps(provider.requests[0].response))["error"]["code"] is None
