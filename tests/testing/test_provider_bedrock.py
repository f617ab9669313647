"""The bodies of the Bedrock endpoints, and the real botocore client against them."""

from __future__ import annotations

import http.client
import json

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "content": [{"text": "hi"}]}
CALLS = {
    "role": "assistant",
    "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}],
}
MODEL = "anthropic.claude-x-v1:0"
PATH = "/model/anthropic.claude-x-v1%3A0/converse"
TWO_CALLS = (ToolCall("look", {"city": "Köln", "n": 1}), ToolCall("stop", {}, id="mine"))
CONTENT = [
    {"text": "Calling."},
    {
        "toolUse": {
            "toolUseId": "tooluse_000001",
            "name": "look",
            "input": {"city": "Köln", "n": 1},
        }
    },
    {"toolUse": {"toolUseId": "mine", "name": "stop", "input": {}}},
]


def call_twice(body, path):
    return Reply("Calling.", tool_calls=TWO_CALLS)


def post(provider, path, body):
    host, port = provider.bedrock_endpoint_url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, response.getheader("x-amzn-errortype"), json.load(response)
    finally:
        connection.close()


def make_client(provider):
    session = botocore.session.Session()
    session.set_credentials("test", "test")
    return session.create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=provider.bedrock_endpoint_url,
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_an_illegal_history_is_refused(strict_provider):
    client = make_client(strict_provider)
    words = "Expected toolResult blocks at messages.2.content for the following Ids: a"
    for ask in (client.converse, client.converse_stream):
        with pytest.raises(client.exceptions.ValidationException) as failure:
            ask(modelId=MODEL, messages=[USER, CALLS, USER])
        assert isinstance(failure.value, ClientError)
        assert failure.value.response["Error"] == {"Code": "ValidationException", "Message": words}
        assert failure.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert strict_provider.rejected == 2
    assert strict_provider.requests[0].response == {"message": words}


def test_a_legal_history_is_answered(strict_provider):
    answer = make_client(strict_provider).converse(modelId=MODEL, messages=[USER])
    assert answer["output"]["message"] == {"role": "assistant", "content": [{"text": "ok"}]}
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"]["totalTokens"] > answer["usage"]["inputTokens"] > 0
    assert answer["ResponseMetadata"]["RequestId"] == "req_000001"
    assert strict_provider.requests[0].path == PATH


def test_calls_are_answered():
    with StrictProvider(call_twice) as provider:
        client = make_client(provider)
        answer = client.converse(modelId=MODEL, messages=[USER])
        assert answer["stopReason"] == "tool_use"
        message = answer["output"]["message"]
        assert message["content"] == CONTENT
        results = [
            {"toolResult": {"toolUseId": block["toolUse"]["toolUseId"], "content": [{"text": "r"}]}}
            for block in message["content"][1:]
        ]
        history = [USER, message, {"role": "user", "content": results}]
        client.converse(modelId=MODEL, messages=history)
    assert provider.rejected == 0


def test_stream():
    with StrictProvider(call_twice) as provider:
        answer = make_client(provider).converse_stream(modelId=MODEL, messages=[USER])
        events = list(answer["stream"])
    assert events[0] == {"messageStart": {"role": "assistant"}}
    assert events[-2] == {"messageStop": {"stopReason": "tool_use"}}
    assert events[-1]["metadata"]["usage"]["totalTokens"] > 0
    starts = [event["contentBlockStart"] for event in events if "contentBlockStart" in event]
    assert [
        (start["contentBlockIndex"], start["start"]["toolUse"]["name"]) for start in starts
    ] == [
        (1, "look"),
        (2, "stop"),
    ]
    texts = {}
    for event in events:
        if "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            text = delta["text"] if "text" in delta else delta["toolUse"]["input"]
            index = event["contentBlockDelta"]["contentBlockIndex"]
            texts[index] = texts.get(index, "") + text
    assert texts == {0: "Calling.", 1: '{"city": "K\\u00f6ln", "n": 1}', 2: "{}"}
    assert provider.requests[0].response["stopReason"] == "tool_use"


def test_a_profile():
    history = [
        USER,
        CALLS,
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "a", "content": []}}, {"text": "and"}],
        },
    ]
    with StrictProvider(profile="bedrock-open-weights") as provider:
        status, kind, _ = post(provider, PATH, {"messages": history})
        assert (status, kind) == (400, "ValidationException")
        assert [problem.kind for problem in provider.requests[0].problems] == ["mixed_result_turn"]
    with StrictProvider() as provider:
        assert post(provider, PATH, {"messages": history})[0] == 200


PLAIN_FAULTS = [
    ("no messages", {}, "must start with a user message"),
    ("messages no list", {"messages": "hi"}, "Provide a list"),
    ("message no object", {"messages": [USER, "x"]}, "messages.1"),
    ("unknown role", {"messages": [{"role": "tool", "content": []}]}, "enum value set"),
]


@pytest.mark.parametrize(
    ("body", "words"), [pytest.param(*row[1:], id=row[0]) for row in PLAIN_FAULTS]
)
def test_plain_faults_are_no_rejections(strict_provider, body, words):
    status, kind, answer = post(strict_provider, PATH, body)
    assert (status, kind) == (400, "ValidationException")
    assert words in answer["message"]
    assert strict_provider.rejected == 0


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "ValidationException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
def test_errors_on_demand(status, name):
    with StrictProvider(lambda body, path: Reply(error="odd", status=status)) as provider:
        assert post(provider, PATH, {"messages": [USER]}) == (status, name, {"message": "odd"})


def test_unknown_path(strict_provider):
    status, kind, _ = post(strict_provider, "/model/x/invoke", {})
    assert (status, kind) == (404, "ResourceNotFoundException")
