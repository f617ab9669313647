"""Every way of the SDKs to ask a model: refused without us, mended with us, and counted once."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

import toolmend
from tests.integrations.sdks.clients import ANTHROPIC, OPENAI, PLATFORMS, make_client
from tests.integrations.sdks.doors import CHAT, CLAUDE, MESSAGES, MODEL, RESPONSES, Door, done
from tests.integrations.sdks.histories import broken, clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio
REFUSED = (openai.BadRequestError, anthropic.BadRequestError)

DOORS = [
    pytest.param(name, door, id=f"{name}-{door.id}")
    for names, doors in ((OPENAI, (*CHAT, *RESPONSES)), (ANTHROPIC, MESSAGES))
    for name in names
    for door in doors
]
PLATFORM_DOORS = [
    pytest.param(prefix + name, door, id=f"{prefix}{name}-{door.id}")
    for name in PLATFORMS
    for prefix in ("", "Async")
    for door in (
        (CHAT[0], CHAT[1], RESPONSES[0])
        if "OpenAI" in name
        else (MESSAGES[0], MESSAGES[2])
        if name == "AnthropicVertex"
        else (MESSAGES[0],)
    )
]


@pytest.mark.parametrize(("name", "door"), DOORS)
async def test_a_broken_history_is_refused_without_us_and_mended_with_us(
    name: str,
    door: Door,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    client = make_client(name, wire)
    with pytest.raises(REFUSED):
        await door.ask(client, broken(door.format))
    assert wire.statuses == [400]
    assert not telemetry.spans

    instrument()
    history = broken(door.format)
    before = copy.deepcopy(history)
    text = await door.ask(client, history)

    assert text in ("ok", None)
    assert wire.statuses == [400, 200]
    assert wire.history() == toolmend.repair(before, door.format).messages
    assert history == before
    provider = "openai" if name in OPENAI else "anthropic"
    if not door.is_counted:
        assert telemetry.spans == ()
        assert telemetry.non_zero("toolmend.model_calls") == {}
        assert telemetry.total("toolmend.tool_calls.requested") == 0
        return
    labels = {"model": MODEL, "provider": provider}
    assert telemetry.non_zero("toolmend.model_calls") == {
        tuple(sorted({**labels, "format": door.format, "outcome": "repaired"}.items())): 1
    }
    assert telemetry.total("toolmend.tool_calls.requested", tool="search", **labels) == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first", **labels) == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert telemetry.total("toolmend.faults") == 0
    [span] = telemetry.spans
    assert span.name == "toolmend.model_call"
    assert span.attributes["toolmend.outcome"] == "repaired"
    assert span.attributes["gen_ai.provider.name"] == provider
    assert span.status.is_unset


@pytest.mark.parametrize(("name", "door"), DOORS)
async def test_a_clean_history_goes_out_byte_for_byte(
    name: str,
    door: Door,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    client = make_client(name, wire)
    await door.ask(client, clean(door.format))
    instrument()
    await door.ask(client, clean(door.format))
    plain, ours = wire.sent
    assert plain.content == ours.content
    assert plain.path == ours.path
    # Anthropic's SDK hands on the trace where there is one, which is ours here.
    assert plain.headers.keys() == ours.headers.keys() - {"traceparent"}
    counted = telemetry.non_zero("toolmend.model_calls")
    assert [dict(series)["outcome"] for series in counted] == ["clean"] * door.is_counted


@pytest.mark.parametrize(("name", "door"), PLATFORM_DOORS)
async def test_platforms(
    name: str,
    door: Door,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    client = make_client(name, wire)
    with pytest.raises(REFUSED):
        await door.ask(client, broken(door.format))
    instrument()
    assert await door.ask(client, broken(door.format)) == "ok"
    assert wire.statuses == [400, 200]
    provider = PLATFORMS[name.removeprefix("Async")]
    assert telemetry.total("toolmend.model_calls", provider=provider, outcome="repaired") == 1
    assert telemetry.total("toolmend.model_calls") == 1


def test_the_client_of_the_module(
    wire: Wire, instrument: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "api_key", "test")
    monkeypatch.setattr(openai, "max_retries", 0)
    monkeypatch.setattr(openai, "http_client", wire.client(openai, is_async=False))
    monkeypatch.setattr(openai, "_client", None)
    ask: Any = lambda: openai.chat.completions.create(model=MODEL, messages=broken("openai-chat"))  # noqa: E731
    with pytest.raises(openai.BadRequestError):
        ask()
    instrument()
    assert ask().choices[0].message.content == "ok"


HOSTS = [
    ("https://api.openai.com/v1", "openai"),
    ("https://eu.api.openai.com/v1", "openai"),
    ("https://example.openai.azure.com/openai/v1", "azure.ai.openai"),
    ("https://api.deepseek.com", "deepseek"),
    ("https://api.groq.com/openai/v1", "groq"),
    ("https://api.mistral.ai/v1", "mistral_ai"),
    ("https://api.perplexity.ai", "perplexity"),
    ("https://api.x.ai/v1", "x_ai"),
    ("https://generativelanguage.googleapis.com/v1beta/openai/", "gcp.gemini"),
    ("https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", "aws.bedrock"),
    ("https://evil-api.deepseek.com.example.org/v1", "openai"),
    ("http://127.0.0.1:8000/v1", "openai"),
]


@pytest.mark.parametrize(("base_url", "provider"), HOSTS, ids=[host for host, _ in HOSTS])
def test_hosts_that_speak_openai(
    base_url: str,
    provider: str,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    instrument()
    client = make_client("OpenAI", wire, base_url=base_url)
    client.chat.completions.create(model=MODEL, messages=clean("openai-chat"))
    assert telemetry.total("toolmend.model_calls", provider=provider) == 1
    assert telemetry.total("toolmend.model_calls") == 1


@pytest.mark.parametrize("name", OPENAI)
async def test_objects_of_openai_and_dicts_mixed(
    name: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    from openai.types.chat import ChatCompletionMessage

    instrument()
    message = ChatCompletionMessage.model_validate(broken("openai-chat")[1])
    history = [broken("openai-chat")[0], message, broken("openai-chat")[2]]
    kept = list(history)
    create = make_client(name, wire).chat.completions.create
    await done(create(model=MODEL, messages=history))
    assert [entry["role"] for entry in wire.history()] == ["user", "assistant", "tool", "user"]
    assert all(now is then for now, then in zip(history, kept, strict=True))


@pytest.mark.parametrize("name", OPENAI)
async def test_objects_of_responses_and_dicts_mixed(
    name: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    responses = pytest.importorskip("openai.types.responses", reason="this version has none")
    instrument()
    call = responses.ResponseFunctionToolCall(**broken("openai-responses")[1])
    history = [broken("openai-responses")[0], call, broken("openai-responses")[2]]
    client = make_client(name, wire)
    await done(client.responses.create(model=MODEL, input=history))
    assert [entry.get("type") for entry in wire.history()] == [
        None,
        "function_call",
        "function_call_output",
        None,
    ]
    assert history[1] is call


@pytest.mark.parametrize("name", ANTHROPIC)
async def test_objects_of_anthropic_and_dicts_mixed(
    name: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    from anthropic.types import ToolUseBlock

    instrument()
    block = ToolUseBlock(**broken("anthropic")[1]["content"][0])
    history = [user, said, next_user] = broken("anthropic")
    said["content"] = [block]
    await done(make_client(name, wire).messages.create(messages=history, **CLAUDE))
    assert [block["type"] for block in wire.history()[2]["content"]] == ["tool_result", "text"]
    assert history == [user, said, next_user]
    assert history[1]["content"] == [block]


@pytest.mark.parametrize("name", [*OPENAI, *ANTHROPIC])
async def test_other_requests_are_none_of_ours(
    name: str, instrument: Callable[..., None], telemetry: Captured
) -> None:
    """Whatever is no model call goes through as it is: here a listing, with a mock of its own."""
    from tests.integrations.sdks.clients import is_async, sdk_of

    sdk = sdk_of(name)
    library = __import__(sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
    listed = {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}

    async def handle_async(request: Any) -> Any:
        return library.Response(200, json=listed)

    transport = library.MockTransport(
        handle_async if is_async(name) else lambda request: library.Response(200, json=listed)
    )
    kind = library.AsyncClient if is_async(name) else library.Client
    instrument()
    client = getattr(sdk, name)(api_key="test", http_client=kind(transport=transport))
    assert (await done(client.models.list())).data == []
    assert telemetry.spans == ()
    assert telemetry.points("toolmend.model_calls") == {}
    assert telemetry.total("toolmend.faults") == 0


@pytest.mark.parametrize(
    ("history", "outcome"),
    [("go", "unrecognized"), ([], "unrecognized")],
    ids=["string", "empty"],
)
def test_an_input_without_calls(
    history: Any,
    outcome: str,
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    client = make_client("OpenAI", wire)
    if not hasattr(client, "responses"):
        pytest.skip("this version has no responses")
    for _ in range(2):
        try:
            client.responses.create(model=MODEL, input=history)
        except openai.APIError:
            pass
        instrument()
    assert wire.contents[0] == wire.contents[1]
    assert json.loads(wire.contents[0])["input"] == history
    assert telemetry.total("toolmend.faults") == 0
    assert telemetry.total("toolmend.model_calls") == 1


@pytest.mark.parametrize(
    "url",
    [
        "chat/completions",
        "/chat/completions/",
        "/chat/completions?x=1",
        "https://api.openai.com/v1/chat/completions",
        "./chat/completions",
        "https://gateway.example/openai/v1/chat/completions",
    ],
)
@pytest.mark.parametrize("name", OPENAI)
async def test_every_spelling_of_a_path(
    name: str, url: str, wire: Wire, instrument: Callable[..., None]
) -> None:
    instrument()
    body = {"model": MODEL, "messages": broken("openai-chat")}
    await done(make_client(name, wire).post(url, cast_to=object, body=body))
    assert len(wire.sent[0].body["messages"]) == len(body["messages"]) + 1
