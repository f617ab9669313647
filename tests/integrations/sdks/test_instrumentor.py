"""The instrumentor: toolmend in OpenTelemetry's own form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

import toolmend
from tests.integrations.sdks.clients import make_client
from tests.integrations.sdks.doors import MODEL
from tests.integrations.sdks.histories import broken
from toolmend.integrations.instrumentor import ToolmendInstrumentor, post_instrument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integrations.sdks.wire import Wire
    from tests.unit.telemetry_capture import Captured


@pytest.fixture
def instrumentor() -> Iterator[ToolmendInstrumentor]:
    made = ToolmendInstrumentor()
    yield made
    if made.is_instrumented_by_opentelemetry:
        made.uninstrument()


def ask(wire: Wire) -> int:
    """Return the status of a request with a broken history."""
    client = make_client("OpenAI", wire)
    try:
        client.chat.completions.create(model=MODEL, messages=broken("openai-chat"))
    except openai.BadRequestError:
        pass
    return wire.statuses[-1]


def test_on_and_off(wire: Wire, instrumentor: ToolmendInstrumentor, telemetry: Captured) -> None:
    assert instrumentor.instrumentation_dependencies() == ()
    assert ask(wire) == 400
    instrumentor.instrument()
    assert ask(wire) == 200
    instrumentor.uninstrument()
    assert ask(wire) == 400
    instrumentor.instrument(
        tracer_provider=None, meter_provider=None, policy=toolmend.Policy(placeholder="none")
    )
    assert ask(wire) == 200
    assert "none" in wire.history()[2]["content"]
    assert telemetry.total("toolmend.model_calls") == 2


def test_options_that_cannot_work_are_told(instrumentor: ToolmendInstrumentor) -> None:
    with pytest.raises(toolmend.PolicyError):
        instrumentor.instrument(spans="some")
    assert not instrumentor.is_instrumented_by_opentelemetry


def test_behind_the_others_it_instruments_where_nobody_has(
    wire: Wire, instrumentor: ToolmendInstrumentor
) -> None:
    post_instrument()
    assert ask(wire) == 200
    assert instrumentor.is_instrumented_by_opentelemetry


def test_behind_the_others_it_keeps_the_options_that_are_set(
    wire: Wire, instrumentor: ToolmendInstrumentor
) -> None:
    instrumentor.instrument(policy=toolmend.Policy(placeholder="none"))
    post_instrument()
    assert ask(wire) == 200
    assert "none" in wire.history()[2]["content"]


def test_behind_the_others_it_stands_outermost(
    wire: Wire,
    instrumentor: ToolmendInstrumentor,
    telemetry: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one that wraps the same method later sees what is sent."""
    seen: list[Any] = []
    instrumentor.instrument()
    inner = openai.OpenAI.request

    def request(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        seen.append(options.json_data["messages"])
        return inner(self, cast_to, options, **kwargs)

    monkeypatch.setattr(openai.OpenAI, "request", request)
    assert ask(wire) == 200
    assert len(seen[-1]) == 3
    post_instrument()
    assert ask(wire) == 200
    assert len(seen[-1]) == 4
    assert telemetry.total("toolmend.model_calls") == 2
    assert len(telemetry.spans) == 2


@pytest.mark.parametrize("names", ["toolmend", "*", "openai , toolmend"])
def test_opentelemetrys_own_switch(
    names: str,
    wire: Wire,
    instrumentor: ToolmendInstrumentor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", names)
    post_instrument()
    assert ask(wire) == 400
    assert not instrumentor.is_instrumented_by_opentelemetry
