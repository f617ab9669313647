"""Streams of instrumented clients: however one ends, its span ends with it, and it is counted once."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from tests.integrations.sdks.clients import ANTHROPIC, OPENAI, is_async, make_client, sdk_of
from tests.integrations.sdks.doors import CLAUDE, MODEL, done, entered, items
from tests.integrations.sdks.histories import broken
from toolmend._run import settle_abandoned
from toolmend.testing.exchange import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured

pytestmark = pytest.mark.anyio
CLIENTS = (*OPENAI, *ANTHROPIC)


async def opened(client: Any) -> Any:
    if "OpenAI" in type(client).__name__:
        create = client.chat.completions.create
        history = broken("openai-chat")
        return await done(create(model=MODEL, messages=history, stream=True))
    history = broken("anthropic")
    return await done(client.messages.create(messages=history, stream=True, **CLAUDE))


async def first(stream: Any) -> Any:
    """Return the next item."""
    if hasattr(type(stream), "__anext__"):
        return await stream.__anext__()
    return next(stream)


async def read_to_the_end(stream: Any) -> None:
    assert len(await items(stream)) > 1


async def close(stream: Any) -> None:
    await first(stream)
    await done(stream.close())


async def close_before_the_first_item(stream: Any) -> None:
    await done(stream.close())


async def leave_the_with(stream: Any) -> None:
    async with entered(stream) as inside:
        await first(inside)


async def raise_in_the_with(stream: Any) -> None:
    async def fail() -> None:
        async with entered(stream) as inside:
            await first(inside)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def forget(stream: Any) -> None:
    await first(stream)


ENDS = [
    read_to_the_end,
    close,
    close_before_the_first_item,
    leave_the_with,
    raise_in_the_with,
    forget,
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("name", CLIENTS)
async def test_the_span_ends_with_the_stream(
    name: str,
    end: Callable[[Any], Any],
    wire: Wire,
    instrument: Callable[..., None],
    telemetry: Captured,
) -> None:
    instrument()
    client = make_client(name, wire)
    stream = await opened(client)
    assert telemetry.spans == ()
    kind = sdk_of(name).AsyncStream if is_async(name) else sdk_of(name).Stream
    # Those of Anthropic before 1.0 recognise nothing but their very class.
    assert isinstance(stream, kind) or type(kind) is not type
    await end(stream)
    assert len(telemetry.spans) == (end is not forget), "there and then, not when it is collected"
    inner = stream._toolmend_stream
    del stream
    gc.collect()
    settle_abandoned()
    await done(inner.close())
    [span] = telemetry.spans
    assert span.attributes["toolmend.outcome"] == "repaired"
    assert span.status.is_unset
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.tool_calls.requested") == 1


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_span_is_not_current_between_items(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    stream = await opened(make_client(name, wire))
    await first(stream)
    assert not trace.get_current_span().is_recording()
    assert telemetry.total("toolmend.model_calls") == 1, "counted with the first item"
    assert telemetry.spans == ()
    await done(stream.close())
    assert len(telemetry.spans) == 1


class Torn:
    """A wire on which a stream tears: the provider sends an error in the middle of it."""

    def __init__(self, wire: Wire) -> None:
        judged = wire._judged

        def torn(path: str, body: dict[str, Any]) -> Response:
            answer = judged(path, body)
            error = {"type": "api_error", "message": "gone"}
            event = f"event: error\ndata: {json.dumps({'type': 'error', 'error': error})}\n\n"
            return Response(
                status=answer.status,
                body=answer.body,
                headers={},
                events=(answer.events[0], event.encode()),
                stream_type=answer.stream_type,
            )

        wire._judged = torn  # type: ignore[method-assign]  # the test's own


@pytest.mark.parametrize("name", CLIENTS)
async def test_an_error_in_the_stream_is_the_error_of_the_span(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    Torn(wire)
    instrument()
    stream = await opened(make_client(name, wire))
    with pytest.raises(sdk_of(name).APIError):
        await items(stream)
    [span] = telemetry.spans
    assert not span.status.is_ok
    assert span.status.description is None
    assert span.attributes["error.type"].endswith("Error")
    assert telemetry.total("toolmend.model_calls", outcome="repaired") == 1
    assert telemetry.total("toolmend.rejections") == 0


@pytest.mark.parametrize("name", OPENAI)
async def test_a_helper_that_keeps_the_response_alone_ends_the_span(
    name: str, wire: Wire, instrument: Callable[..., None], telemetry: Captured
) -> None:
    instrument()
    client = make_client(name, wire)
    stream = getattr(client.chat.completions, "stream", None)
    if stream is None:
        pytest.skip("this release has no such helper")
    async with entered(stream(model=MODEL, messages=broken("openai-chat"))) as inside:
        await first(inside)
        assert telemetry.spans == ()
    assert len(telemetry.spans) == 1
    assert inside._response.status_code == 200  # everything else is the response's own
