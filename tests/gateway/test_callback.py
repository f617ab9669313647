"""The callback as LiteLLM calls it, without a proxy around it."""

from __future__ import annotations

import asyncio
import copy
import sys
from types import SimpleNamespace

import fastapi
import litellm
import pytest

import toolmend
from tests.unit.histories import assistant, clean, dangling, user
from toolmend.integrations.litellm import ToolmendCallback, callback
from toolmend.settings import settings

REJECTION = (
    "OpenAIException - An assistant message with 'tool_calls' must be followed by tool messages "
    "responding to each 'tool_call_id'."
)
CALLER = SimpleNamespace(parent_otel_span=None, team_id=None)

ANTHROPIC = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}],
    },
    {"role": "user", "content": "next"},
]
RESPONSES = [
    {"role": "user", "content": "go"},
    {"type": "function_call", "call_id": "call_1", "name": "search", "arguments": "{}"},
    {"role": "user", "content": "next"},
]


@pytest.fixture
def environment(monkeypatch):
    settings.cache_clear()
    yield monkeypatch
    settings.cache_clear()


def hook(data, call_type="acompletion", with_callback=callback, caller=CALLER):
    return asyncio.run(with_callback.async_pre_call_hook(caller, None, data, call_type))


def fail(data, error, with_callback=callback):
    return asyncio.run(with_callback.async_post_call_failure_hook(data, error, CALLER))


def refused(text=REJECTION):
    return litellm.BadRequestError(message=text, model="gpt", llm_provider="openai")


@pytest.mark.parametrize(
    ("call_type", "key", "history", "wire"),
    [
        ("completion", "messages", dangling(), "openai-chat"),
        ("acompletion", "messages", dangling(), "openai-chat"),
        ("anthropic_messages", "messages", ANTHROPIC, "anthropic"),
        ("responses", "input", RESPONSES, "openai-responses"),
        ("aresponses", "input", RESPONSES, "openai-responses"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_history_is_replaced_and_nothing_else(telemetry, call_type, key, history, wire):
    given = {"model": "gpt", key: history, "temperature": 0, "metadata": {"a": 1}}
    data, before = dict(given), copy.deepcopy(given)
    assert hook(data, call_type) is data
    assert data[key] == list(toolmend.repair(history, wire).messages) != history
    assert given == before
    assert {name for name in data if data[name] is not given[name]} == {key}
    [((*labels,), count)] = telemetry.non_zero("toolmend.model_calls").items()
    assert dict(labels) | {"model": "gpt"} == {
        "model": "gpt",
        "provider": "unknown",
        "format": wire,
        "outcome": "repaired",
    }
    assert count == 1


@pytest.mark.parametrize(
    "call_type",
    ["aembedding", "atext_completion", "agenerate_content", "acreate_batch", "call_mcp_tool"],
)
def test_other_calls_are_neither_touched_nor_counted(telemetry, call_type):
    data = {"model": "gpt", "messages": dangling(), "input": RESPONSES}
    before = copy.deepcopy(data)
    assert hook(data, call_type) is None
    assert data == before
    assert not telemetry.non_zero("toolmend.model_calls")
    assert not telemetry.spans


@pytest.mark.parametrize(
    ("call_type", "data"),
    [
        pytest.param("acompletion", {"messages": clean()}, id="clean"),
        pytest.param("aresponses", {"input": "hello"}, id="text"),
        pytest.param("acompletion", {}, id="nothing"),
        pytest.param("acompletion", {"messages": None}, id="null"),
        pytest.param("acompletion", {"messages": "hello"}, id="no-list"),
        pytest.param("acompletion", {"messages": [1, None, {"role": []}]}, id="nonsense"),
        pytest.param("acompletion", {"messages": {"role": "user"}}, id="mapping"),
    ],
)
def test_what_needs_no_repair_or_cannot_be_read_passes_as_it_is(telemetry, call_type, data):
    given = dict(data)
    assert hook(data, call_type) is data
    assert data.keys() == given.keys()
    assert all(data[name] is given[name] for name in data)
    outcome = "clean" if "clean" in str(telemetry.non_zero("toolmend.model_calls")) else ""
    assert telemetry.total("toolmend.model_calls", outcome=outcome or "unrecognized") == 1
    assert telemetry.total("toolmend.faults") == 0


@pytest.mark.parametrize(
    "state",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"extra_body": {"previous_response_id": "resp_1"}},
    ],
    ids=str,
)
def test_a_lone_result_stays_where_the_history_is_on_the_server(telemetry, state):
    result = [{"type": "function_call_output", "call_id": "call_1", "output": "42"}]
    data = {"model": "gpt", "input": result, **state}
    hook(data, "aresponses")
    assert data["input"] is result
    gone = {"model": "gpt", "input": result}
    hook(gone, "aresponses")
    assert gone["input"] == []


def test_a_lone_result_of_an_anthropic_thread_stays(telemetry):
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
    history = [{"role": "user", "content": [result]}]
    data = {"messages": history, "thread": {"type": "continue", "previous_message_id": "msg_1"}}
    hook(data, "anthropic_messages")
    assert data["messages"] is history


def test_a_fault_of_our_own_passes_the_request_on(telemetry):
    def placeholder(call):
        raise RuntimeError("SECRET")

    faulty = ToolmendCallback(policy=toolmend.Policy(placeholder=placeholder))
    history = dangling()
    data = {"model": "gpt", "messages": history}
    assert hook(data, with_callback=faulty) is data
    assert data["messages"] is history
    assert history == dangling()
    assert telemetry.total("toolmend.model_calls", outcome="fault") == 1
    assert telemetry.total("toolmend.faults") == 1


def test_a_router_that_fails_passes_the_request_on(telemetry, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "litellm.proxy.proxy_server", SimpleNamespace(llm_router=object())
    )
    data = {"model": "gpt", "messages": dangling()}
    hook(data)
    assert len(data["messages"]) == 4
    assert telemetry.total("toolmend.model_calls", provider="unknown", outcome="repaired") == 1
    assert telemetry.total("toolmend.faults") == 1


def test_observe_reports_and_sends_the_original(telemetry):
    observing = ToolmendCallback(policy=toolmend.Policy(mode="observe"))
    history = dangling()
    data = {"model": "gpt", "messages": history}
    hook(data, with_callback=observing)
    assert data["messages"] is history
    assert telemetry.total("toolmend.model_calls", outcome="observed") == 1


def test_raise_answers_the_client_with_a_400(telemetry):
    raising = ToolmendCallback(policy=toolmend.Policy(mode="raise"))
    data = {"model": "gpt", "messages": dangling(), "litellm_call_id": "1"}
    with pytest.raises(fastapi.HTTPException) as caught:
        hook(data, with_callback=raising)
    assert caught.value.status_code == 400
    assert "dangling_call" in caught.value.detail
    assert isinstance(caught.value.__cause__, toolmend.BrokenHistoryError)
    fail(data, caught.value, with_callback=raising)
    assert telemetry.total("toolmend.model_calls", outcome="raised") == 1
    assert not telemetry.non_zero("toolmend.rejections")
    [span] = telemetry.spans
    assert span.attributes["toolmend.outcome"] == "raised"


def test_the_mode_may_depend_on_the_session(telemetry):
    by_session = ToolmendCallback(
        policy=toolmend.Policy(mode=lambda thread: "repair" if thread == "new" else "observe")
    )
    kept = {"messages": dangling(), "metadata": {"session_id": "old"}}
    hook(kept, with_callback=by_session)
    assert kept["messages"] == dangling()
    mended = {"messages": dangling(), "metadata": {"session_id": "new"}}
    hook(mended, with_callback=by_session)
    assert len(mended["messages"]) == 4


def test_an_operator_switches_it(telemetry, environment):
    environment.setenv("TOOLMEND_MODE", "observe")
    data = {"model": "gpt", "messages": dangling()}
    hook(data)
    assert data["messages"] == dangling()
    assert telemetry.total("toolmend.model_calls", outcome="observed") == 1
    settings.cache_clear()
    environment.setenv("TOOLMEND_DISABLED", "1")
    assert hook(data) is None
    assert telemetry.total("toolmend.model_calls") == 1


@pytest.mark.parametrize(
    ("data", "thread"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"metadata": {"session_id": "a"}}, "a", id="metadata"),
        pytest.param({"litellm_metadata": {"session_id": "b"}}, "b", id="litellm-metadata"),
        pytest.param({"litellm_session_id": "c"}, "c", id="litellm-session"),
        pytest.param(
            {
                "proxy_server_request": {"headers": {"x-litellm-session-id": "d"}},
                "metadata": {"session_id": "trace"},
            },
            "d",
            id="header-before-what-the-trace-header-became",
        ),
        pytest.param(
            {
                "metadata": {"session_id": "made-up", "litellm_session_id_generated": True},
                "litellm_session_id": "made-up",
            },
            None,
            id="made-up-by-litellm",
        ),
        pytest.param({"litellm_call_id": "1", "litellm_trace_id": "2"}, None, id="other-ids"),
        pytest.param({"metadata": ["session_id"], "litellm_session_id": 7}, None, id="nonsense"),
        pytest.param({"proxy_server_request": {"headers": None}}, None, id="no-headers"),
    ],
)
def test_the_thread_is_the_session_that_the_client_named(telemetry, data, thread):
    hook({"model": "gpt", "messages": dangling(), **data})
    [span] = telemetry.spans
    assert span.attributes.get("gen_ai.conversation.id") == thread
    assert telemetry.total("toolmend.faults") == 0


MODELS = {
    "one": ["openai/gpt-6-sol"],
    "several-of-one": ["openai/gpt-6-sol", "openai/gpt-6-luna"],
    "several": ["openai/gpt-6-sol", "azure/gpt-6-sol"],
    "by-name": ["gpt-4o"],
    "renamed": ["bedrock/anthropic.claude-x"],
    "another-gateway": ["litellm_proxy/gpt"],
}


@pytest.mark.filterwarnings("ignore:Item.*ReadOnly:UserWarning")  # LiteLLM's own, with its router
@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("one", "openai"),
        ("several-of-one", "openai"),
        ("several", "unknown"),
        ("by-name", "openai"),
        ("renamed", "aws.bedrock"),
        ("another-gateway", "unknown"),
        ("alias", "openai"),
        ("mistral/any", "mistral_ai"),
        ("nobody-knows-it", "unknown"),
        (["nonsense"], "unknown"),
    ],
    ids=str,
)
def test_the_provider_is_the_one_that_the_router_leads_to(telemetry, monkeypatch, model, provider):
    router = litellm.Router(
        model_list=[
            {
                "model_name": name,
                "litellm_params": {
                    "model": deployment,
                    "api_key": "test",
                    "api_base": "http://127.0.0.1:9",
                },
            }
            for name, deployments in {**MODELS, "mistral/*": ["mistral/*"]}.items()
            for deployment in deployments
        ],
        model_group_alias={"alias": "one"},
    )
    monkeypatch.setitem(
        sys.modules, "litellm.proxy.proxy_server", SimpleNamespace(llm_router=router)
    )
    hook({"model": model, "messages": dangling()})
    assert telemetry.total("toolmend.model_calls", provider=provider) == 1
    assert telemetry.total("toolmend.faults") == 0


@pytest.mark.parametrize(
    ("error", "count"),
    [
        pytest.param(refused(), 1, id="history"),
        pytest.param(refused("too many tokens"), 0, id="another-400"),
        pytest.param(ConnectionError(REJECTION), 0, id="no-status"),
    ],
)
def test_a_refusal_by_the_provider_is_counted_once(telemetry, error, count):
    data = {
        "model": "gpt",
        "messages": clean(),
        "litellm_call_id": "1",
        "litellm_session_id": "session-1",
    }
    hook(data)
    for _ in range(2):
        assert fail(data, error) is None
    assert telemetry.non_zero("toolmend.rejections") == (
        {(("model", "gpt"), ("outcome", "clean"), ("provider", "unknown")): 1} if count else {}
    )
    logged = [event for event in telemetry.logs if event["event"] == "history_rejected"]
    assert [event["thread"] for event in logged] == ["session-1"] * count


def test_refusals_of_calls_that_never_came_by_are_not_counted(telemetry):
    for data in ({}, {"litellm_call_id": "2"}, {"litellm_call_id": ["nonsense"]}):
        fail(data, refused())
    assert not telemetry.non_zero("toolmend.rejections")


def test_what_is_remembered_of_calls_is_bounded(telemetry):
    fresh = ToolmendCallback()

    async def many():
        for number in range(6_000):
            data = {"messages": [user()], "litellm_call_id": str(number)}
            await fresh.async_pre_call_hook(CALLER, None, data, "acompletion")

    asyncio.run(many())
    fail({"litellm_call_id": "999"}, refused(), with_callback=fresh)
    assert not telemetry.non_zero("toolmend.rejections")
    fail({"litellm_call_id": "1000"}, refused(), with_callback=fresh)
    assert telemetry.total("toolmend.rejections") == 1


def test_a_subclass_is_called_too():
    class Mine(ToolmendCallback):
        pass

    # How LiteLLM decides whether to call a hook.
    assert "async_pre_call_hook" in vars(Mine)
    data = {"messages": dangling()}
    hook(data, with_callback=Mine())
    assert len(data["messages"]) == 4


def test_a_subclass_may_have_a_hook_of_its_own():
    class Mine(ToolmendCallback):
        async def async_pre_call_hook(self, *arguments):
            return "mine"

    assert hook({"messages": dangling()}, with_callback=Mine()) == "mine"


def test_the_span_stands_under_the_one_that_litellm_has_opened(telemetry):
    from toolmend.telemetry.signals import signals

    parent = signals().tracer.start_span("litellm request")
    caller = SimpleNamespace(parent_otel_span=parent, team_id=None)
    hook({"model": "gpt", "messages": dangling()}, caller=caller)
    parent.end()
    mended, _ = telemetry.spans
    assert mended.name == "toolmend.model_call"
    assert mended.parent.span_id == parent.get_span_context().span_id


def test_a_policy_is_a_policy():
    with pytest.raises(toolmend.PolicyError, match="got dict"):
        ToolmendCallback(policy={"mode": "observe"})


def test_a_call_that_is_still_open_may_be_left():
    leaving = ToolmendCallback(policy=toolmend.Policy(trailing="leave"))
    history = [user(), assistant("c1")]
    data = {"messages": history}
    hook(data, with_callback=leaving)
    assert data["messages"] is history
