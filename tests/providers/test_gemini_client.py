"""The real google-genai client: illegal histories refused, legal ones accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import errors, types

from toolmend.testing import Reply, StrictProvider, ToolCall, assert_legal, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

CALLS = (ToolCall("search", {"q": "fjords"}), ToolCall("search", {"q": "lakes"}))


def reply(body: dict[str, Any], path: str) -> Reply:
    if len(body["contents"]) == 1:
        return Reply("Looking.", tool_calls=CALLS)
    return Reply("Done.")


@pytest.fixture
def client() -> Iterator[genai.Client]:
    with StrictProvider(reply) as provider:
        options = types.HttpOptions(base_url=provider.gemini_base_url)
        with genai.Client(api_key="test", http_options=options) as client:
            yield client


def user(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def answer(part: types.Part) -> types.Part:
    call = part.function_call
    assert call is not None
    return types.Part(
        function_response=types.FunctionResponse(id=call.id, name=call.name, response={"result": 3})
    )


def judged(history: list[types.Content], content: types.Content) -> list[types.Part]:
    """Check that judge and content agree; return the parts that call."""
    assert content.parts is not None
    found = problems([*history, content], format="gemini")
    assert [(problem.kind, problem.index) for problem in found] == [("dangling", 1)]
    return [part for part in content.parts if part.function_call]


def test_a_turn_with_calls(client: genai.Client) -> None:
    ask: Any = client.models.generate_content
    history = [user(types.Part(text="go"))]
    content = ask(model="g", contents=history).candidates[0].content
    calls = judged(history, content)
    for contents in (
        [*history, content],
        [*history, content, user(answer(calls[0]))],
        [*history, content, user(answer(calls[0])), user(answer(calls[1]))],
        [content, user(*map(answer, calls))],
    ):
        assert problems(contents, format="gemini")
        with pytest.raises(errors.ClientError, match="Please ensure that") as refused:
            ask(model="g", contents=contents)
        assert refused.value.code == 400
        assert refused.value.status == "INVALID_ARGUMENT"
    legal = [*history, content, user(*map(answer, reversed(calls)))]
    assert_legal(legal)
    assert ask(model="g", contents=legal).text == "Done."


def test_a_stream(client: genai.Client) -> None:
    ask: Any = client.models.generate_content_stream
    history = [user(types.Part(text="go"))]
    chunks = list(ask(model="g", contents=history))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    content = types.Content(role="model", parts=parts)
    calls = judged(history, content)
    with pytest.raises(errors.ClientError, match="Please ensure that"):
        list(ask(model="g", contents=[*history, content]))
    last = list(ask(model="g", contents=[*history, content, user(*map(answer, calls))]))
    assert "".join(chunk.text for chunk in last) == "Done."


async def test_async(client: genai.Client) -> None:
    ask: Any = client.aio.models.generate_content
    history = [user(types.Part(text="go"))]
    content = (await ask(model="g", contents=history)).candidates[0].content
    with pytest.raises(errors.ClientError):
        await ask(model="g", contents=[*history, content])
    await client.aio.aclose()


def test_a_chat_goes_on(client: genai.Client) -> None:
    chat: Any = client.chats.create(model="g")
    calls = chat.send_message("go").candidates[0].content.parts[1:]
    with pytest.raises(errors.ClientError):
        chat.send_message("never mind")
    assert chat.send_message([answer(part) for part in calls]).text == "Done."
    assert_legal(chat.get_history())
