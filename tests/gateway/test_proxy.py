"""Clients of a real LiteLLM proxy whose histories a provider refuses: with the callback it takes them."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

import toolmend
from tests.gateway.proxy import ROOT, starting_proxy
from tests.services.otlp_sink import http_sink, plain
from toolmend.testing import Reply, StrictProvider, ToolCall

EXAMPLE = ROOT / "examples/litellm"
PLACEHOLDER = "No result was recorded"
REFUSAL = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: call_9"
)
OBSERVING = "import toolmend\n\ntoolmend.instrument(policy=toolmend.Policy(mode='observe'))\n"
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]


def reply(body, path):
    asked = str(body.get("messages", body.get("input")))
    if "SECRET refuse" in asked:
        return Reply(error=REFUSAL, status=400)
    if "overload" in asked:
        return Reply(error="too long", status=400)
    if "look it up" in asked and "function_call_output" not in asked:
        return Reply(text="", tool_calls=(ToolCall("find", {}, id="call_7"),))
    return Reply()


@pytest.fixture(scope="module")
def upstream():
    with StrictProvider(reply) as provider:
        yield provider


@pytest.fixture(scope="module")
def sink():
    with http_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def proxies(upstream, sink, tmp_path_factory):
    """Two proxies: the example as it stands, its SDK instrumented, and the same without either."""
    mending = tmp_path_factory.mktemp("mending") / "config.yaml"
    shutil.copytree(EXAMPLE, mending.parent, dirs_exist_ok=True)
    # As where OpenTelemetry starts the proxy. It mends nothing, and must not count either.
    start = tmp_path_factory.mktemp("start") / "sitecustomize.py"
    start.write_text(OBSERVING, "utf-8")
    settings = yaml.safe_load(mending.read_text("utf-8"))
    assert settings.pop("litellm_settings")["callbacks"] == ["toolmend_callback.callback"]
    bare = tmp_path_factory.mktemp("bare") / "config.yaml"
    bare.write_text(yaml.safe_dump(settings), "utf-8")
    variables = {
        "PYTHONPATH": os.pathsep.join((str(start.parent), str(ROOT / "src"))),
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BLRP_SCHEDULE_DELAY": "100",
    }
    with (
        starting_proxy(mending, upstream, **variables) as with_callback,
        starting_proxy(bare, upstream) as without,
    ):
        with_callback.wait_until_ready()
        without.wait_until_ready()
        yield with_callback, without


@pytest.fixture
def mending(proxies):
    return proxies[0]


@pytest.fixture
def bare(proxies):
    return proxies[1]


def chat(model, is_broken, **options):
    call = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    history = [
        {"role": "user", "content": "SECRET"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        *([] if is_broken else [result]),
        {"role": "user", "content": "and now?"},
    ]
    return {"model": model, "messages": history, "tools": TOOLS, **options}


def messages(model, is_broken, **options):
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
    history = [
        {"role": "user", "content": "SECRET"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}],
        },
        {
            "role": "user",
            "content": [*([] if is_broken else [result]), {"type": "text", "text": "and now?"}],
        },
    ]
    return {"model": model, "max_tokens": 100, "messages": history, **options}


def responses(model, is_broken, **options):
    result = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
    history = [
        {"role": "user", "content": "SECRET"},
        {"type": "function_call", "call_id": "call_1", "name": "find", "arguments": "{}"},
        *([] if is_broken else [result]),
        {"role": "user", "content": "and now?"},
    ]
    return {"model": model, "input": history, **options}


ROUTES = [
    pytest.param("/v1/chat/completions", chat, "gpt", "openai-chat", id="chat-to-openai"),
    pytest.param("/v1/chat/completions", chat, "claude", "openai-chat", id="chat-to-anthropic"),
    pytest.param("/v1/messages", messages, "claude", "anthropic", id="messages-to-anthropic"),
    pytest.param("/v1/messages", messages, "gpt", "anthropic", id="messages-to-openai"),
    pytest.param("/v1/responses", responses, "gpt", "openai-responses", id="responses-to-openai"),
    pytest.param(
        "/v1/responses", responses, "claude", "openai-responses", id="responses-to-anthropic"
    ),
]
PROVIDERS = {"gpt": "openai", "claude": "anthropic"}


def sent(provider, ask):
    """Return what a request made the proxy send on, and the answer."""
    before = len(provider.requests)
    answer = ask()
    return provider.requests[before:], answer


@pytest.mark.parametrize("streams", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("path", "body", "model", "wire"), ROUTES)
def test_a_broken_history_is_refused_without_and_taken_with_the_callback(
    bare, mending, upstream, path, body, model, wire, streams
):
    options = {"stream": True} if streams else {}
    seen, refused = sent(upstream, lambda: bare.ask(path, body(model, True, **options)))
    assert {request.status for request in seen} == {400}
    assert refused.status_code == 400 or "error" in refused.text

    [request], answer = sent(upstream, lambda: mending.ask(path, body(model, True, **options)))
    assert (answer.status_code, request.status, request.problems) == (200, 200, ())
    assert str(request.body).count(PLACEHOLDER) == 1


@pytest.mark.parametrize(("path", "body", "model", "wire"), ROUTES)
def test_a_whole_history_goes_on_as_without_the_callback(
    bare, mending, upstream, path, body, model, wire
):
    [plainly], _ = sent(upstream, lambda: bare.ask(path, body(model, False)))
    [watched], answer = sent(upstream, lambda: mending.ask(path, body(model, False)))
    assert answer.status_code == 200
    assert watched.body == plainly.body


def test_what_goes_on_from_a_history_on_the_server_is_left_alone(mending, upstream):
    tools = [{"type": "function", "name": "find", "parameters": {"type": "object"}}]
    options = {"model": "gpt", "tools": tools}
    first = mending.ask("/v1/responses", {**options, "input": "look it up"})
    assert first.json()["output"][0]["call_id"] == "call_7"
    result = [{"type": "function_call_output", "call_id": "call_7", "output": "42"}]
    body = {**options, "input": result, "previous_response_id": first.json()["id"]}
    [request], second = sent(upstream, lambda: mending.ask("/v1/responses", body))
    assert second.status_code == 200, second.text
    assert request.body["input"] == result
    assert request.body["previous_response_id"]


def test_results_of_an_anthropic_thread_are_left_alone(bare, mending, upstream):
    """LiteLLM drops ``thread``, so the provider refuses them: but what the client said stays."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
    body = {
        "model": "claude",
        "max_tokens": 100,
        "thread": {"type": "continue", "previous_message_id": "msg_1"},
        "messages": [{"role": "user", "content": [result]}],
    }
    [plainly], _ = sent(upstream, lambda: bare.ask("/v1/messages", body))
    [watched], _ = sent(upstream, lambda: mending.ask("/v1/messages", body))
    assert watched.body == plainly.body


def spans_of(sink, session, seconds=15.0):
    deadline = time.monotonic() + seconds
    while True:
        found = [
            (arrived.item, plain(arrived.item.attributes))
            for arrived in sink.wait_for("litellm", "traces")["traces"]
            if plain(arrived.item.attributes).get("gen_ai.conversation.id") == session
        ]
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize(("path", "body", "model", "wire"), ROUTES)
def test_the_call_is_told_with_the_session_as_the_conversation(
    mending, sink, path, body, model, wire
):
    session = f"session-{path}-{model}"
    headers = {"x_litellm_session_id": session, "x_litellm_trace_id": "one-of-many"}
    mending.ask(path, body(model, True), **headers)
    [(span, attributes)] = spans_of(sink, session)
    assert span.name == "toolmend.model_call"
    assert attributes["gen_ai.request.model"] == model
    assert attributes["gen_ai.provider.name"] == PROVIDERS[model]
    assert attributes["toolmend.format"] == wire
    assert attributes["toolmend.outcome"] == "repaired"
    [event] = span.events
    assert plain(event.attributes)["gen_ai.tool.name"] == "find"
    assert plain(event.attributes)["toolmend.cause"] == "interrupted"


def test_the_session_may_stand_in_the_metadata(mending, sink):
    body = chat("gpt", False, metadata={"session_id": "session-metadata"})
    mending.ask("/v1/chat/completions", body)
    [(_, attributes)] = spans_of(sink, "session-metadata")
    assert attributes["toolmend.outcome"] == "clean"


def series(sink, name):
    """Return the latest values of a counter: attributes and number."""
    found = {}
    for arrived in sink.wait_for("litellm", "metrics")["metrics"]:
        if arrived.item.name == name:
            for point in arrived.item.sum.data_points:
                found[tuple(sorted(plain(point.attributes).items()))] = point.as_int
    return [(dict(labels), value) for labels, value in found.items()]


def calls(sink):
    return sum(value for _, value in series(sink, "toolmend.model_calls"))


def until(condition, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


def test_a_history_that_is_refused_all_the_same_is_counted_once(mending, sink):
    """Beside each refusal stands another error, which is none of our business."""

    def counted():
        found = {}
        for labels, value in series(sink, "toolmend.rejections"):
            provider, outcome = labels["gen_ai.provider.name"], labels["toolmend.outcome"]
            found[labels["gen_ai.request.model"], provider, outcome] = value
        return Counter(found)

    assert until(lambda: calls(sink) == mending.asked)
    before = counted()
    for route in ROUTES:
        path, body, model, _ = route.values
        for streams in (False, True):
            for text in ("SECRET refuse", "overload"):
                request = body(model, False, **({"stream": True} if streams else {}))
                request["input" if "input" in request else "messages"] = [
                    {"role": "user", "content": text}
                ]
                mending.ask(path, request, x_litellm_session_id="session-refused")
    assert until(lambda: (counted() - before).total() >= 2 * len(ROUTES)), counted()
    time.sleep(0.5)
    assert counted() - before == {
        ("gpt", "openai", "clean"): 6,
        ("claude", "anthropic", "clean"): 6,
    }
    records = [
        plain(arrived.item.attributes)
        for arrived in sink.wait_for("litellm", "logs")["logs"]
        if arrived.item.event_name == "history_rejected"
    ]
    sessions = [record.get("gen_ai.conversation.id") for record in records]
    assert sessions.count("session-refused") == 2 * len(ROUTES)


def test_every_call_was_counted_once_and_nothing_of_it_was_told(mending, sink):
    """The last test: it sums up what the others sent through the proxy with the callback."""
    mending.ask("/v1/embeddings", {"model": "gpt", "input": "SECRET"})
    mending.asked -= 1
    assert until(lambda: calls(sink) >= mending.asked)
    time.sleep(0.5)
    assert calls(sink) == mending.asked > 0
    assert sum(value for _, value in series(sink, "toolmend.faults")) == 0
    told = [arrived for arrived in sink.arrived if arrived.scope.name == "toolmend"]
    assert {arrived.signal for arrived in told} == {"traces", "metrics", "logs"}
    assert "SECRET" not in repr(told)
    # LiteLLM logs what a hook raises, with the place that it comes from.
    assert str(ROOT / "src/toolmend/integrations/litellm") not in mending.log.read_text("utf-8")


def test_the_documentation_shows_the_example_that_ran():
    page = (ROOT / "docs/litellm.md").read_text("utf-8")
    for name, language in (("config.yaml", "yaml"), ("toolmend_callback.py", "py")):
        assert f"```{language}\n{(EXAMPLE / name).read_text('utf-8')}```" in page


def test_the_source_under_test_is_the_one_of_this_clone():
    assert Path(toolmend.__file__).is_relative_to(ROOT / "src")
