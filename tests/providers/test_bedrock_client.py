"""The real boto3 client: illegal histories refused, legal ones accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from toolmend.testing import Reply, StrictProvider, ToolCall, assert_legal, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

USER: dict[str, Any] = {"role": "user", "content": [{"text": "go"}]}
MODEL = "anthropic.claude-x-v1:0"
CALLS = (ToolCall("search", {"q": "fjords"}), ToolCall("search", {"q": "lakes"}))


def reply(body: dict[str, Any], path: str) -> Reply:
    if len(body["messages"]) == 1:
        return Reply("Looking.", tool_calls=CALLS)
    return Reply("Done.")


@pytest.fixture
def client() -> Iterator[Any]:
    with StrictProvider(reply) as provider:
        client = boto3.client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=provider.bedrock_endpoint_url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}),
        )
        yield client
        client.close()


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(block: dict[str, Any]) -> dict[str, Any]:
    call_id = block["toolUse"]["toolUseId"]
    return {"toolResult": {"toolUseId": call_id, "content": [{"json": {"found": 3}}]}}


def text_of(stream: Any) -> str:
    return "".join(
        event["contentBlockDelta"]["delta"]["text"]
        for event in stream
        if "contentBlockDelta" in event
    )


def test_a_turn_with_calls(client: Any) -> None:
    message = client.converse(modelId=MODEL, messages=[USER])["output"]["message"]
    calls = message["content"][1:]
    strange = {"toolResult": {"toolUseId": "z", "content": [{"text": "r"}]}}
    for messages, words in (
        ([USER, message, user({"text": "x"})], "Expected toolResult blocks at messages.2.content"),
        ([USER, message, user(result(calls[0]))], "for the following Ids: tooluse_000002"),
        ([USER, message, user(*map(result, calls), strange)], "exceeds the number of toolUse"),
        ([message, user(*map(result, calls))], "must start with a user message"),
        ([USER, USER], "must alternate between user and assistant roles"),
    ):
        assert problems(messages, format="bedrock")
        for ask in (client.converse, client.converse_stream):
            with pytest.raises(ClientError, match=words) as refused:
                ask(modelId=MODEL, messages=messages)
            assert isinstance(refused.value, client.exceptions.ValidationException)
    legal = [USER, message, user(*map(result, reversed(calls)), {"text": "and?"})]
    assert_legal(legal)
    answer = client.converse(modelId=MODEL, messages=legal)
    assert answer["output"]["message"]["content"] == [{"text": "Done."}]
    assert text_of(client.converse_stream(modelId=MODEL, messages=legal)["stream"]) == "Done."
