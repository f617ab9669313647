"""The real openai client and its Responses API: illegal histories refused, legal ones accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from toolmend.testing import Reply, StrictProvider, ToolCall, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = {"role": "user", "content": "go"}


def reply(body: dict[str, Any], path: str) -> Reply:
    if body["input"] == [USER] or body["input"] == "go":
        return Reply("Looking.", tool_calls=(ToolCall("search", {"q": "fjords"}),))
    return Reply("Done.")


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with (
        StrictProvider(reply) as provider,
        openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0) as client,
    ):
        yield client


def output(call_id: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": "three"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_turn_with_a_call(client: openai.OpenAI, stream: bool) -> None:
    create: Any = client.responses.create
    answer = create(model="m", input=[USER], stream=stream)
    response = list(answer)[-1].response if stream else answer
    message, call = response.output
    history = [USER, message, call]

    found = problems(history, format="openai-responses")
    assert [problem.kind for problem in found] == ["dangling"]
    with pytest.raises(openai.BadRequestError) as refused:
        create(model="m", input=history, stream=stream)
    assert refused.value.body == {
        "message": f"No tool output found for function call {call.call_id}.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }

    history.append(output(call.call_id))
    assert problems(history, format="openai-responses") == []
    assert create(model="m", input=history).output_text == "Done."


def test_a_turn_on_the_server(client: openai.OpenAI) -> None:
    create: Any = client.responses.create
    first = create(model="m", input="go")
    answer = [output(first.output[-1].call_id)]
    assert problems(answer, format="openai-responses", server_state=True) == []
    with pytest.raises(openai.BadRequestError, match="No tool call found"):
        create(model="m", input=answer)
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        create(model="m", input=[USER], previous_response_id=first.id)
    second = create(model="m", input=answer, previous_response_id=first.id)
    assert second.output_text == "Done."
