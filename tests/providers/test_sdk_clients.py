"""The real openai and anthropic clients: refused undecorated, accepted decorated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessage

import toolmend
from tests.unit.histories import assistant, clean, dangling, user
from toolmend.testing import Reply, StrictProvider, ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio

CHAT_REFUSAL = {
    "message": (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: c1"
    ),
    "type": "invalid_request_error",
    "param": "messages.[1].role",
    "code": None,
}
MESSAGES_REFUSAL = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next "
    "message."
)


def messages_history() -> list[Any]:
    return [
        user(),
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}],
        },
        user("next"),
    ]


@pytest.fixture
def chat(strict_provider: StrictProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=strict_provider.openai_base_url, api_key="test", max_retries=0
    ) as client:
        yield client


@pytest.fixture
async def async_chat(strict_provider: StrictProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=strict_provider.openai_base_url, api_key="test", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def claude(strict_provider: StrictProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=strict_provider.anthropic_base_url, api_key="test", max_retries=0
    ) as client:
        yield client


@pytest.fixture
async def async_claude(
    strict_provider: StrictProvider,
) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=strict_provider.anthropic_base_url, api_key="test", max_retries=0
    ) as client:
        yield client


# -- OpenAI Chat --------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_openai_sync(
    stream: bool, chat: openai.OpenAI, strict_provider: StrictProvider, telemetry: Captured
) -> None:
    create: Any = chat.chat.completions.create
    with pytest.raises(openai.BadRequestError) as refused:
        create(model="gpt-x", messages=dangling(), stream=stream)
    assert refused.value.body == CHAT_REFUSAL

    answer = toolmend.model_call(create)(model="gpt-x", messages=dangling(), stream=stream)
    if stream:
        assert isinstance(answer, openai.Stream)
        with answer as chunks:
            text = "".join(
                chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
            )
    else:
        text = answer.choices[0].message.content
    assert text == "ok"
    assert [request.status for request in strict_provider.requests] == [400, 200]
    assert telemetry.total("toolmend.model_calls", provider="openai", model="gpt-x") == 1
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_openai_async(
    stream: bool, async_chat: openai.AsyncOpenAI, telemetry: Captured
) -> None:
    create: Any = async_chat.chat.completions.create
    with pytest.raises(openai.BadRequestError) as refused:
        await create(model="gpt-x", messages=dangling(), stream=stream)
    assert refused.value.body == CHAT_REFUSAL

    answer = await toolmend.model_call(create)(model="gpt-x", messages=dangling(), stream=stream)
    if stream:
        assert isinstance(answer, openai.AsyncStream)
        text = "".join(
            [chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices]
        )
    else:
        text = answer.choices[0].message.content
    assert text == "ok"
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert len(telemetry.spans) == 1


def test_openai_stream_helper_and_function_around_the_client(chat: openai.OpenAI) -> None:
    @toolmend.model_call
    def ask(messages: list[Any], model: str = "gpt-x") -> str:
        with chat.chat.completions.stream(model=model, messages=messages) as stream:
            return stream.get_final_completion().choices[0].message.content or ""

    assert ask(dangling()) == "ok"


def test_openai_objects_and_dicts_may_be_mixed(strict_provider: StrictProvider) -> None:
    def reply(body: dict[str, Any], path: str) -> Reply:
        if len(body["messages"]) == 1:
            return Reply(text="", tool_calls=(ToolCall("search", {"q": "x"}),))
        return Reply(text="done")

    with (
        StrictProvider(reply) as provider,
        openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0) as client,
    ):
        create = toolmend.model_call(client.chat.completions.create)
        history: list[Any] = [user()]
        message = create(model="gpt-x", messages=history).choices[0].message
        assert isinstance(message, ChatCompletionMessage)
        assert message.tool_calls
        history += [message, user("never mind")]
        answer = create(model="gpt-x", messages=history)
        assert answer.choices[0].message.content == "done"
        sent = provider.requests[-1].body["messages"]
        assert [entry["role"] for entry in sent] == ["user", "assistant", "tool", "user"]
        assert sent[2]["tool_call_id"] == message.tool_calls[0].id
        assert history[1] is message


def test_openai_a_clean_history_goes_out_byte_for_byte(
    chat: openai.OpenAI, strict_provider: StrictProvider
) -> None:
    create: Any = chat.chat.completions.create
    create(model="gpt-x", messages=clean())
    toolmend.model_call(create)(model="gpt-x", messages=clean())
    plain, decorated = strict_provider.requests
    assert plain.body == decorated.body


def test_openai_a_rejection_is_counted(chat: openai.OpenAI, telemetry: Captured) -> None:
    observe = toolmend.model_call(
        chat.chat.completions.create, policy=toolmend.Policy(mode="observe")
    )
    with pytest.raises(openai.BadRequestError):
        observe(model="gpt-x", messages=dangling())
    assert telemetry.total("toolmend.rejections", outcome="observed", provider="openai") == 1
    with pytest.raises(openai.BadRequestError):
        observe(model="gpt-x", messages=[{"role": "reviewer", "content": "x"}])
    assert telemetry.total("toolmend.rejections") == 1


def test_compatible_hosts_rejection_is_counted(telemetry: Captured) -> None:
    with (
        StrictProvider(flavour="compatible") as provider,
        openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0) as client,
    ):
        observe = toolmend.model_call(
            client.chat.completions.create, policy=toolmend.Policy(mode="observe")
        )
        with pytest.raises(openai.BadRequestError, match="insufficient tool messages"):
            observe(model="gpt-x", messages=dangling())
    assert telemetry.total("toolmend.rejections") == 1


# -- Anthropic ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_anthropic_sync(
    stream: bool, claude: anthropic.Anthropic, strict_provider: StrictProvider, telemetry: Captured
) -> None:
    create: Any = claude.messages.create
    options: Any = {"model": "claude-x", "max_tokens": 10, "stream": stream}
    with pytest.raises(anthropic.BadRequestError) as refused:
        create(messages=messages_history(), **options)
    body: Any = refused.value.body
    assert body["error"] == {"type": "invalid_request_error", "message": MESSAGES_REFUSAL}
    assert body["type"] == "error"

    answer = toolmend.model_call(create)(messages=messages_history(), **options)
    if stream:
        assert isinstance(answer, anthropic.Stream)
        kinds = [event.type for event in answer]
        assert kinds[0] == "message_start"
        assert kinds[-1] == "message_stop"
    else:
        assert answer.content[0].text == "ok"
    assert [request.status for request in strict_provider.requests] == [400, 200]
    assert telemetry.total("toolmend.model_calls", provider="anthropic", format="anthropic") == 1
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_anthropic_async(
    stream: bool, async_claude: anthropic.AsyncAnthropic, telemetry: Captured
) -> None:
    create: Any = async_claude.messages.create
    options: Any = {"model": "claude-x", "max_tokens": 10, "stream": stream}
    with pytest.raises(anthropic.BadRequestError):
        await create(messages=messages_history(), **options)
    answer = await toolmend.model_call(create)(messages=messages_history(), **options)
    if stream:
        kinds = [event.type async for event in answer]
        assert kinds[-1] == "message_stop"
    else:
        assert answer.content[0].text == "ok"
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert len(telemetry.spans) == 1


def test_anthropic_stream_helper(claude: anthropic.Anthropic) -> None:
    @toolmend.model_call
    def ask(messages: list[Any]) -> Any:
        with claude.messages.stream(model="claude-x", max_tokens=10, messages=messages) as stream:
            yield from stream.text_stream

    assert "".join(ask(messages_history())) == "ok"


def test_anthropic_objects_come_back_as_content() -> None:
    def reply(body: dict[str, Any], path: str) -> Reply:
        if len(body["messages"]) == 1:
            return Reply(text="Looking.", tool_calls=(ToolCall("search", {"q": "x"}),))
        return Reply(text="done")

    with (
        StrictProvider(reply) as provider,
        anthropic.Anthropic(
            base_url=provider.anthropic_base_url, api_key="test", max_retries=0
        ) as client,
    ):
        create = toolmend.model_call(client.messages.create)
        history: list[Any] = [user()]
        answer = create(model="claude-x", max_tokens=10, messages=history)
        history += [{"role": "assistant", "content": answer.content}, user("never mind")]
        assert create(model="claude-x", max_tokens=10, messages=history).content[0].text == "done"
        sent = provider.requests[-1].body["messages"]
        assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text"]


def test_anthropic_token_counting_is_mended_and_not_counted(
    claude: anthropic.Anthropic, telemetry: Captured
) -> None:
    with pytest.raises(anthropic.BadRequestError):
        claude.messages.count_tokens(model="claude-x", messages=messages_history())
    count = toolmend.model_call(claude.messages.count_tokens)
    assert count(model="claude-x", messages=messages_history()).input_tokens > 0
    assert telemetry.total("toolmend.model_calls") == 0


def test_anthropic_a_rejection_is_counted(claude: anthropic.Anthropic, telemetry: Captured) -> None:
    observe = toolmend.model_call(claude.messages.create, policy=toolmend.Policy(mode="observe"))
    with pytest.raises(anthropic.BadRequestError):
        observe(model="claude-x", max_tokens=10, messages=messages_history())
    assert telemetry.total("toolmend.rejections", outcome="observed", provider="anthropic") == 1


# -- LangChain ----------------------------------------------------------------------------------


def test_langchain_messages_reach_a_strict_model_mended(telemetry: Captured) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    from toolmend.testing import assert_legal

    class StrictModel(GenericFakeChatModel):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            assert_legal(messages, format="langchain")
            return super()._generate(messages, *args, **kwargs)

    history = [
        HumanMessage("go"),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "c1"}]),
        HumanMessage("next"),
    ]
    model = StrictModel(messages=iter([AIMessage("fine")]))
    with pytest.raises(AssertionError, match="c1"):
        model.invoke(history)
    answer = toolmend.model_call(model.invoke)(history)
    assert answer.content == "fine"
    assert telemetry.total("toolmend.model_calls", format="langchain", outcome="repaired") == 1


def test_chat_history_with_an_answer_of_no_content_is_left_alone(
    chat: openai.OpenAI, strict_provider: StrictProvider
) -> None:
    history = [user(), assistant(text=""), user()]
    toolmend.model_call(chat.chat.completions.create)(model="gpt-x", messages=history)
    assert strict_provider.requests[-1].body["messages"] == history


# -- context managers that send the request when they are entered ----------------------------------


def test_openai_stream_manager(chat: openai.OpenAI, telemetry: Captured) -> None:
    stream: Any = toolmend.model_call(chat.chat.completions.stream)
    with stream(model="gpt-x", messages=dangling()) as events:
        assert events.get_final_completion().choices[0].message.content == "ok"
    assert telemetry.total("toolmend.model_calls", outcome="repaired", provider="openai") == 1
    assert len(telemetry.spans) == 1
    observe: Any = toolmend.model_call(
        chat.chat.completions.stream, policy=toolmend.Policy(mode="observe")
    )
    with (
        pytest.raises(openai.BadRequestError),
        observe(model="gpt-x", messages=dangling()),
    ):
        pass
    assert telemetry.total("toolmend.rejections", outcome="observed") == 1
    assert telemetry.spans[-1].attributes["toolmend.rejected"] is True


async def test_anthropic_stream_manager(
    async_claude: anthropic.AsyncAnthropic, telemetry: Captured
) -> None:
    options: Any = {"model": "claude-x", "max_tokens": 10}
    stream: Any = toolmend.model_call(async_claude.messages.stream)
    async with stream(messages=messages_history(), **options) as events:
        assert await events.get_final_text() == "ok"
    assert telemetry.total("toolmend.model_calls", outcome="repaired", provider="anthropic") == 1
    observe: Any = toolmend.model_call(
        async_claude.messages.stream, policy=toolmend.Policy(mode="observe")
    )
    with pytest.raises(anthropic.BadRequestError):
        async with observe(messages=messages_history(), **options):
            pass
    assert telemetry.total("toolmend.rejections", outcome="observed") == 1


def test_openai_raw_and_streaming_responses(chat: openai.OpenAI, telemetry: Captured) -> None:
    raw: Any = toolmend.model_call(chat.chat.completions.with_raw_response.create)
    assert raw(model="gpt-x", messages=dangling()).status_code == 200
    streaming: Any = toolmend.model_call(
        chat.chat.completions.with_streaming_response.create,
        policy=toolmend.Policy(mode="observe"),
    )
    with (
        pytest.raises(openai.BadRequestError),
        streaming(model="gpt-x", messages=dangling()),
    ):
        pass
    assert telemetry.total("toolmend.model_calls", provider="openai") == 2
    assert telemetry.total("toolmend.rejections") == 1
