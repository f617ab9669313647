"""The strict provider as other hosts: Mistral's words, and the rules of the profiles."""

from __future__ import annotations

import pytest
from openai import BadRequestError, OpenAI, RateLimitError

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "content": "hi"}
COUNT = "Not the same number of function calls and responses"


def calls(call_id="aB3dE5fG7", arguments="{}", **fields):
    function = {"name": "f", "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call], **fields}


def result(call_id="aB3dE5fG7"):
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


def make_client(provider):
    return OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0)


REFUSED = [
    ("dangling", [USER, calls(), USER], COUNT, "invalid_request_message_order", "3230"),
    ("orphan", [USER, result()], COUNT, "invalid_request_message_order", "3230"),
    (
        "user behind a result",
        [USER, calls(), result(), USER],
        "Unexpected role 'user' after role 'tool'",
        "invalid_request_message_order",
        "3230",
    ),
    (
        "id",
        [USER, calls("call_1"), result("call_1")],
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "invalid_function_call",
        "3280",
    ),
    (
        "arguments",
        [USER, calls(arguments=""), result()],
        "Invalid 'messages[1].tool_calls[0].function.arguments': expected a string holding a JSON "
        "object.",
        "invalid_request_error",
        None,
    ),
]


@pytest.mark.parametrize(
    ("history", "words", "kind", "code"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED]
)
def test_mistral_refuses(history, words, kind, code):
    with (
        StrictProvider(profile="mistral") as provider,
        make_client(provider) as client,
        pytest.raises(BadRequestError) as failure,
    ):
        client.chat.completions.create(model="m", messages=history)
    assert failure.value.response.json() == {
        "object": "error",
        "message": words,
        "type": kind,
        "param": None,
        "code": code,
    }
    assert provider.rejected == 1


def test_mistral_answers_with_ids_that_it_takes():
    def reply(body, path):
        return (
            Reply("", tool_calls=(ToolCall("f", {}), ToolCall("g", {})))
            if len(body["messages"]) == 1
            else Reply()
        )

    with StrictProvider(reply, profile="mistral") as provider, make_client(provider) as client:
        message = client.chat.completions.create(model="m", messages=[USER]).choices[0].message
        ids = [call.id for call in message.tool_calls]
        assert ids == ["call00001", "call00002"]
        history = [USER, message, *map(result, ids)]
        client.chat.completions.create(model="m", messages=history)
    assert provider.rejected == 0


def test_errors_on_demand_in_the_shape_of_mistral():
    with (
        StrictProvider(lambda body, path: Reply(error="slow", status=429), profile="mistral") as p,
        make_client(p) as client,
        pytest.raises(RateLimitError) as failure,
    ):
        client.chat.completions.create(model="m", messages=[USER])
    assert failure.value.response.json()["object"] == "error"


@pytest.mark.parametrize(
    ("profile", "history", "words"),
    [
        (
            "dashscope",
            [USER, calls(arguments=""), result()],
            'The "function.arguments" parameter of the code model must be in JSON format.',
        ),
        (
            "deepseek-thinking",
            [USER, calls(reasoning_content="hm"), result(), calls(), result()],
            "Missing `reasoning_content` field in the assistant message at message index 3.",
        ),
    ],
)
def test_other_profiles_refuse_in_the_envelope_of_openai(profile, history, words):
    with (
        StrictProvider(profile=profile) as provider,
        make_client(provider) as client,
        pytest.raises(BadRequestError) as failure,
    ):
        client.chat.completions.create(model="m", messages=history)
    assert words in failure.value.body["message"]
    assert failure.value.type == "invalid_request_error"
    assert provider.rejected == 1


def test_unknown_profile():
    with pytest.raises(ValueError, match="not 'azure'"):
        StrictProvider(profile="azure")
