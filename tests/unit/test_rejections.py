"""A provider's 400 about the history is told from all other errors."""

from __future__ import annotations

from typing import Any

import pytest

from toolmend.telemetry.rejections import is_history_rejection


class StatusError(Exception):
    """Shaped like the status errors of the openai and anthropic SDKs."""

    def __init__(self, message: str, status_code: Any = 400, body: Any = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.body = body


OPENAI = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. "
)
REJECTED = {
    "responses dangling": "No tool output found for function call call_abc.",
    "responses dangling, custom": "No tool output found for custom tool call call_abc.",
    "responses orphan": "No tool call found for function call output with call_id call_abc.",
    "responses reasoning": (
        "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    ),
    "gemini": (
        "400 INVALID_ARGUMENT. Please ensure that the number of function response parts is equal to "
        "the number of function call parts of the function call turn."
    ),
    "gemini order": (
        "Please ensure that function call turn comes immediately after a user turn or after a "
        "function response turn."
    ),
    "gemini response order": (
        "Please ensure that function response turn comes immediately after a function call turn."
    ),
    "bedrock dangling": (
        "An error occurred (ValidationException) when calling the Converse operation: Expected "
        "toolResult blocks at messages.2.content for the following Ids: tooluse_1"
    ),
    "bedrock orphan": (
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks "
        "of previous turn."
    ),
    "mistral": "Not the same number of function calls and responses",
    "mistral order": "Unexpected role 'user' after role 'tool'",
    "openai dangling": OPENAI
    + "The following tool_call_ids did not have response messages: call_abc",
    "compatible host": OPENAI + "(insufficient tool messages following tool_calls message)",
    "openai orphan": (
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'."
    ),
    "openai orphan, spelt right": (
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message "
        "with 'tool_calls'."
    ),
    "anthropic dangling": (
        "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message."
    ),
    "anthropic orphan": (
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    ),
    "anthropic server tool": (
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block"
    ),
    "anthropic server orphan": (
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: "
        "srvtoolu_1."
    ),
    "anthropic ids": "messages.3.content.1: `tool_use` ids must be unique",
    "without quotes": (
        "tool_use ids were found without tool_result blocks immediately after: toolu_1"
    ),
}
ORDINARY = {
    "context length": "This model's maximum context length is 128000 tokens.",
    "bad parameter": "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "unknown role": (
        "Invalid value: 'reviewer'. Supported values are: 'system', 'assistant', 'user', "
        "'function', 'tool', and 'developer'."
    ),
    "bad tool schema": "Invalid schema for function 'search': schema must have a 'type' key.",
    "empty text": "messages: text content blocks must be non-empty",
    "policy": "Your request was flagged as potentially violating our usage policy.",
    "tool choice": "tool_choice forces a tool_use that is not in tools",
}


@pytest.mark.parametrize("text", REJECTED.values(), ids=REJECTED)
def test_a_history_rejection_is_recognised(text: str) -> None:
    assert is_history_rejection(StatusError(text))
    assert is_history_rejection(StatusError("Error code: 400", body={"error": {"message": text}}))
    assert is_history_rejection(StatusError("Error code: 400", body={"message": text}))
    assert is_history_rejection(StatusError("Error code: 400", body=text))


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_any_other_400_is_not(text: str) -> None:
    assert not is_history_rejection(StatusError(text))


@pytest.mark.parametrize("status", [401, 404, 413, 429, 500, None, "400"])
def test_any_other_status_is_not(status: Any) -> None:
    assert not is_history_rejection(StatusError(REJECTED["openai dangling"], status_code=status))


def test_an_error_without_a_status_is_not() -> None:
    assert not is_history_rejection(ValueError(REJECTED["openai dangling"]))


def test_an_error_that_cannot_be_looked_at_is_not() -> None:
    class Odd(Exception):
        status_code = 400

        @property
        def body(self) -> None:
            raise RuntimeError

    assert not is_history_rejection(Odd())


def test_a_response_of_a_plain_http_client_is_recognised() -> None:
    class Response:
        status_code = 400
        text = REJECTED["anthropic dangling"]

    class HttpError(Exception):
        response = Response()

    assert is_history_rejection(HttpError("Client error '400 Bad Request'"))


class ClientError(Exception):
    """Shaped like botocore's: the answer is a dict."""

    def __init__(self, message: str, status: Any) -> None:
        super().__init__(message)
        self.response = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}


def test_an_answer_in_a_dict_has_its_status_there() -> None:
    text = REJECTED["bedrock dangling"]

    assert is_history_rejection(ClientError(text, 400))
    assert not is_history_rejection(ClientError(text, 500))
    assert not is_history_rejection(ClientError("ValidationException: bad model id", 400))
    broken = ClientError(text, 400)
    broken.response = {"ResponseMetadata": None}
    assert not is_history_rejection(broken)
