"""What @model_call tells the operator: spans, counters per model, thread and tool, log events."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context, trace

import toolmend
from tests.unit.histories import assistant, clean, dangling, tool, user
from tests.unit.telemetry_capture import Captured, captured
from toolmend.settings import settings
from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    settings.cache_clear()
    yield monkeypatch
    settings.cache_clear()


@toolmend.model_call(model="gpt-x", provider="openai")
def ask(messages: Any, thread_id: str | None = None) -> Any:
    return messages


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about within five seconds")


# -- metrics ------------------------------------------------------------------------------------


def test_a_repaired_call_shows_in_every_metric_under_exactly_these_labels(
    telemetry: Captured,
) -> None:
    ask([user(), assistant("c1", "c2", tool="search"), tool("c1"), user()], thread_id="t-1")
    assert telemetry.non_zero("toolmend.model_calls") == {
        (
            ("format", "openai-chat"),
            ("model", "gpt-x"),
            ("outcome", "repaired"),
            ("provider", "openai"),
        ): 1
    }
    assert telemetry.non_zero("toolmend.tool_calls.requested") == {
        (("model", "gpt-x"), ("provider", "openai"), ("tool", "search")): 2
    }
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "partial_batch"), ("tool", "search")): 1
    }
    assert telemetry.non_zero("toolmend.threads.dangling") == {(("thread", "t-1"),): 1}
    assert telemetry.non_zero("toolmend.repairs") == {
        (
            ("action", "patched"),
            ("finding", "dangling_call"),
            ("model", "gpt-x"),
            ("provider", "openai"),
        ): 1
    }
    assert telemetry.non_zero("toolmend.repair.duration") == {
        (("format", "openai-chat"), ("outcome", "repaired")): 1
    }
    assert not telemetry.non_zero("toolmend.faults")


def test_series_are_opened_at_zero(telemetry: Captured) -> None:
    ask(clean())
    model_calls = telemetry.points("toolmend.model_calls")
    assert {dict(series)["outcome"] for series in model_calls} == set(names.OUTCOMES)
    assert {dict(series)["outcome"] for series in telemetry.points("toolmend.rejections")} == set(
        names.OUTCOMES
    )
    assert telemetry.points("toolmend.tool_calls.dangling") == {
        (
            ("model", "gpt-x"),
            ("provider", "openai"),
            ("recurrence", "first"),
            ("tool", "search"),
        ): 0
    }
    assert {dict(series)["where"] for series in telemetry.points("toolmend.faults")} == set(
        names.FAULT_PLACES
    )


def test_a_history_kept_in_a_store_counts_one_first_however_many_turns_follow(
    telemetry: Captured,
) -> None:
    stored = [user(), assistant("c1")]
    for turn in range(10):
        stored.append(user(f"turn {turn}"))
        ask(list(stored), thread_id="t-1")
        stored.append(assistant(text="sorry"))
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="repeat") == 9
    assert telemetry.total("toolmend.tool_calls.requested") == 1
    assert telemetry.total("toolmend.threads.dangling") == 1


def test_workers_and_restarts_count_one_first() -> None:
    """Each process has its own memory; what tells a repeat is the assistant turn behind the batch."""
    stored = [user(), assistant("c1"), user("turn 0")]
    firsts = repeats = 0.0
    for turn in range(10):
        with captured() as process:
            ask(list(stored), thread_id="t-1")
            firsts += process.total("toolmend.tool_calls.dangling", recurrence="first")
            repeats += process.total("toolmend.tool_calls.dangling", recurrence="repeat")
        stored += [assistant(text="sorry"), user(f"turn {turn + 1}")]
    assert (firsts, repeats) == (1, 9)


def test_a_retry_of_the_same_request_is_a_repeat(telemetry: Captured) -> None:
    for _ in range(3):
        ask(dangling(), thread_id="t-1")
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="repeat") == 2
    assert telemetry.total("toolmend.tool_calls.requested") == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"thread_id": "t-2"}, id="another thread"),
        pytest.param({"id": "c2"}, id="another id"),
        pytest.param({"tool": "weather"}, id="another tool"),
        pytest.param({"before": "another question"}, id="another message before the batch"),
    ],
)
def test_what_differs_is_a_first_of_its_own(other: dict[str, str], telemetry: Captured) -> None:
    ask(dangling(), thread_id="t-1")
    history = [
        user(other.get("before", "go")),
        assistant(other.get("id", "c1"), tool=other.get("tool", "search")),
        user("next"),
    ]
    ask(history, thread_id=other.get("thread_id", "t-1"))
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 2


def test_an_apology_behind_the_batch_leaves_it_a_first(telemetry: Captured) -> None:
    ask([user(), assistant("c1"), assistant(text="I was interrupted."), user()])
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1


def test_calls_are_requested_once_when_answered_and_never_when_an_answer_follows(
    telemetry: Captured,
) -> None:
    history = [user(), assistant("c1", "c2"), tool("c1"), tool("c2")]
    ask(list(history))
    history.append(assistant(text="done"))
    ask([*history, user()])
    assert telemetry.total("toolmend.tool_calls.requested") == 2
    assert telemetry.total("toolmend.tool_calls.dangling") == 0


def test_a_nameless_call_counts_on_neither_side(telemetry: Captured) -> None:
    ask([user(), assistant("c1", tool=""), user()])
    assert telemetry.total("toolmend.tool_calls.requested") == 0
    assert telemetry.total("toolmend.tool_calls.dangling") == 0
    assert telemetry.total("toolmend.repairs", finding="nameless_call") == 1


def test_nested_layers_count_one_model_call_and_all_of_them_mend(telemetry: Captured) -> None:
    sent: list[Any] = []

    @toolmend.model_call(model="inner-model", provider="openai")
    def sdk(messages: Any) -> Any:
        sent.append(messages)
        return "ok"

    @toolmend.model_call
    def framework(messages: Any) -> Any:
        # Something between the layers cuts the history again.
        return sdk([message for message in messages if message["role"] != "tool"])

    framework(dangling())
    assert [message["role"] for message in sent[0]] == ["user", "assistant", "tool", "user"]
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.model_calls", model="inner-model", outcome="repaired") == 1
    assert telemetry.total("toolmend.tool_calls.dangling") == 1
    assert telemetry.total("toolmend.tool_calls.requested") == 1
    assert len(telemetry.spans) == 1


def test_what_only_the_inner_layer_finds_is_counted_by_the_outer(telemetry: Captured) -> None:
    @toolmend.model_call
    def sdk(messages: Any) -> Any:
        return messages

    @toolmend.model_call(model="m")
    def chain(question: str) -> Any:
        return sdk([user(question), assistant("c1"), user()])

    chain("hi")
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.total("toolmend.model_calls", outcome="repaired", model="m") == 1
    assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == 1


async def test_a_call_in_a_task_that_outlives_the_outer_one_counts_by_itself(
    telemetry: Captured,
) -> None:
    tasks: list[asyncio.Task[Any]] = []

    @toolmend.model_call
    async def inner(messages: Any) -> None: ...

    @toolmend.model_call
    async def outer(messages: Any) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await inner(messages)

        tasks.append(asyncio.ensure_future(later()))

    await outer(clean())
    await tasks[0]
    assert telemetry.total("toolmend.model_calls") == 2


def test_token_counting_is_mended_and_counted_nowhere(telemetry: Captured) -> None:
    @toolmend.model_call
    def count_tokens(messages: Any) -> Any:
        return messages

    assert len(count_tokens(dangling())) == 4
    assert telemetry.total("toolmend.model_calls") == 0
    assert telemetry.spans == ()


def test_a_stream_is_counted_with_its_first_item_and_its_span_ends_with_the_stream(
    telemetry: Captured,
) -> None:
    @toolmend.model_call
    def stream(messages: Any) -> Any:
        yield trace.get_current_span().get_span_context().span_id
        yield 2

    items = stream(clean())
    assert telemetry.total("toolmend.model_calls") == 0
    span_id = next(items)
    assert telemetry.total("toolmend.model_calls") == 1
    assert telemetry.spans == ()
    assert not trace.get_current_span().get_span_context().is_valid
    assert list(items) == [2]
    (span,) = telemetry.spans
    assert span.context.span_id == span_id


@pytest.mark.parametrize("ending", ["closed", "abandoned"])
def test_a_stream_that_nobody_reads_on_ends_its_span(ending: str, telemetry: Captured) -> None:
    @toolmend.model_call
    def stream(messages: Any) -> Any:
        yield 1
        yield 2

    items = stream(clean())
    next(items)
    if ending == "closed":
        items.close()
    else:
        del items
    # Not there and then: the garbage collector may be the one that closes it.
    eventually(lambda: len(telemetry.spans) == 1)
    assert telemetry.spans[0].status.status_code.name == "UNSET"


# -- cardinality --------------------------------------------------------------------------------


def test_random_labels_past_every_bound_show_no_overflow_and_keep_their_sums() -> None:
    draw = random.Random(7)
    calls = 4_000
    with captured(thread_limit=200) as telemetry:
        for number in range(calls):
            asked = toolmend.model_call(
                lambda messages: messages,
                model=f"model-{draw.randrange(300)}",
                provider=f"provider-{draw.randrange(60)}",
                thread=f"thread-{number}",
            )
            asked([user(), assistant(f"c{number}", tool=f"tool-{draw.randrange(900)}"), user()])
        for metric in names.METRICS:
            points = telemetry.points(metric.name)
            assert len(points) < 2_000, metric.name
            assert not any("overflow" in dict(series) for series in points)
        assert telemetry.total("toolmend.model_calls") == calls
        assert telemetry.total("toolmend.tool_calls.requested") == calls
        assert telemetry.total("toolmend.tool_calls.dangling", recurrence="first") == calls
        assert telemetry.total("toolmend.dangling.causes") == calls
        assert telemetry.total("toolmend.threads.dangling") == calls
        assert len(telemetry.points("toolmend.threads.dangling")) == 201
        tools = {dict(series)["tool"] for series in telemetry.points("toolmend.dangling.causes")}
        assert len(tools) == 101


# -- spans --------------------------------------------------------------------------------------


def test_the_span_tells_the_story_without_content(telemetry: Captured) -> None:
    secret = "SECRET-CONTENT"
    history = [
        user(secret),
        {
            "role": "assistant",
            "content": secret,
            "tool_calls": [
                {
                    "id": f"c{number}",
                    "type": "function",
                    "function": {"name": "search", "arguments": f'{{"q": "{secret}"}}'},
                }
                for number in range(40)
            ],
        },
        user(secret),
    ]
    ask(history, thread_id="t-1")
    (span,) = telemetry.spans
    assert span.name == "toolmend.model_call"
    assert span.kind is trace.SpanKind.INTERNAL
    assert dict(span.attributes) == {
        "gen_ai.request.model": "gpt-x",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "t-1",
        "toolmend.format": "openai-chat",
        "toolmend.mode": "repair",
        "toolmend.outcome": "repaired",
        "toolmend.history.messages": 3,
        "toolmend.first_changed_index": 2,
        "toolmend.repairs.patched": 40,
        "toolmend.findings": 40,
    }
    assert len(span.events) == 32
    assert dict(span.events[0].attributes) == {
        "toolmend.finding": "dangling_call",
        "toolmend.action": "patched",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "c0",
        "toolmend.cause": "interrupted",
    }
    everything = span.to_json() + repr(telemetry.logs) + repr(telemetry.reader.get_metrics_data())
    assert secret not in everything


def test_the_span_is_current_during_the_call(telemetry: Captured) -> None:
    @toolmend.model_call
    def inner(messages: Any) -> Any:
        return trace.get_current_span().get_span_context().span_id

    span_id = inner(clean())
    assert telemetry.spans[0].context.span_id == span_id
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize(
    ("setting", "history", "fails", "spans"),
    [
        ("always", clean, False, 1),
        ("always", dangling, False, 1),
        ("repairs", clean, False, 0),
        ("repairs", dangling, False, 1),
        ("repairs", clean, True, 1),
        ("never", dangling, True, 0),
    ],
)
def test_spans_are_made_as_the_operator_asks(
    setting: str,
    history: Any,
    fails: bool,
    spans: int,
    environment: pytest.MonkeyPatch,
    telemetry: Captured,
) -> None:
    environment.setenv("TOOLMEND_SPANS", setting)

    @toolmend.model_call
    def asked(messages: Any) -> None:
        if fails:
            raise Rejected(REJECTION)

    try:
        asked(history())
    except Rejected:
        pass
    assert len(telemetry.spans) == spans
    assert telemetry.total("toolmend.rejections") == fails
    for span in telemetry.spans:
        assert span.end_time >= span.start_time
        assert span.attributes.get("toolmend.rejected", False) is fails


# -- rejections ---------------------------------------------------------------------------------

REJECTION = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: call_1"
)


class Rejected(Exception):
    def __init__(self, message: str, status_code: int = 400) -> None:
        super().__init__(message)
        self.status_code = status_code


def test_a_refused_history_is_counted_logged_and_raised_unmodified(telemetry: Captured) -> None:
    error = Rejected(REJECTION)

    @toolmend.model_call(policy=toolmend.Policy(mode="observe"), model="gpt-x")
    def asked(messages: Any) -> None:
        raise error

    with pytest.raises(Rejected) as caught:
        asked(dangling())
    assert caught.value is error
    assert telemetry.total("toolmend.rejections", outcome="observed", model="gpt-x") == 1
    assert telemetry.spans[0].attributes["toolmend.rejected"] is True
    assert [log["event"] for log in telemetry.logs] == ["tool_calls_observed", "history_rejected"]
    assert telemetry.logs[1]["level"] == "error"


# -- logs ---------------------------------------------------------------------------------------


def test_a_repair_is_logged_once_as_a_warning_and_then_for_debugging(telemetry: Captured) -> None:
    ask(dangling(), thread_id="t-1")
    ask(dangling(), thread_id="t-1")
    first, again = telemetry.logs
    (span, _) = telemetry.spans
    assert first == {
        "level": "warning",
        "event": "tool_calls_mended",
        "model": "gpt-x",
        "provider": "openai",
        "thread": "t-1",
        "format": "openai-chat",
        "counts": {"patched": 1},
        "tools": ["search"],
        "call_ids": ["c1"],
        "causes": ["interrupted"],
        "recurrence": "first",
        "trace_id": trace.format_trace_id(span.context.trace_id),
        "span_id": trace.format_span_id(span.context.span_id),
    }
    assert (again["level"], again["recurrence"]) == ("debug", "repeat")


def test_a_clean_call_logs_nothing(telemetry: Captured) -> None:
    ask(clean())
    assert telemetry.logs == []


def test_a_fault_is_logged_once_and_without_content(telemetry: Captured) -> None:
    class Oddity(Exception):
        pass

    def broken(_: object) -> str:
        raise Oddity("SECRET")

    asked = toolmend.model_call(lambda messages: messages, thread=broken)
    for _ in range(5):
        asked(clean())
    assert telemetry.total("toolmend.faults", where="thread") == 5
    (event,) = telemetry.logs
    assert event["event"] == "toolmend_fault"
    assert event["error_type"].endswith("Oddity")
    assert "SECRET" not in repr(event)


# -- threads ------------------------------------------------------------------------------------


def test_the_thread_is_named_by_the_first_that_knows(telemetry: Captured) -> None:
    def of(function: Any, *args: Any, **kwargs: Any) -> Any:
        function(*args, **kwargs)
        return telemetry.spans[-1].attributes.get("gen_ai.conversation.id")

    def plain(
        messages: Any, session_id: Any = None, config: Any = None, user_id: str = "u"
    ) -> None: ...

    asked = toolmend.model_call(plain)
    fixed = toolmend.model_call(plain, thread="fixed")
    computed = toolmend.model_call(plain, thread=lambda arguments: arguments["user_id"] + "!")
    assert of(asked, clean()) is None
    assert of(asked, clean(), "by-argument") == "by-argument"
    assert of(asked, clean(), 7) == "7"
    assert of(asked, clean(), config={"configurable": {"thread_id": "by-graph"}}) == "by-graph"
    token = context.attach(baggage.set_baggage("gen_ai.conversation.id", "by-baggage"))
    try:
        assert of(asked, clean()) == "by-baggage"
        assert of(asked, clean(), "by-argument") == "by-argument"
        with toolmend.thread("by-context"):
            assert of(asked, clean(), "by-argument") == "by-context"
            assert of(fixed, clean()) == "fixed"
            assert of(computed, clean(), user_id="me") == "me!"
    finally:
        context.detach(token)


async def test_the_thread_is_kept_across_awaits_and_tasks(telemetry: Captured) -> None:
    @toolmend.model_call
    async def asked(messages: Any) -> None:
        await asyncio.sleep(0)

    with toolmend.thread("t-1"):
        await asyncio.gather(asked(clean()), asyncio.ensure_future(asked(clean())))
    await asked(clean())
    threads = [span.attributes.get("gen_ai.conversation.id") for span in telemetry.spans]
    assert threads == ["t-1", "t-1", None]


def test_a_thread_id_must_be_text() -> None:
    with pytest.raises(TypeError, match="a thread id is a text; got int"), toolmend.thread(7):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("by", ["option", "environment"])
def test_thread_ids_can_be_kept_out_of_telemetry(
    by: str, environment: pytest.MonkeyPatch, telemetry: Captured
) -> None:
    if by == "environment":
        environment.setenv("TOOLMEND_THREAD_LABEL", "hash")
    asked = toolmend.model_call(
        lambda messages, thread_id: messages, thread_label="hash" if by == "option" else None
    )
    asked(dangling(), "someone@example.org")
    everything = telemetry.spans[0].to_json() + repr(telemetry.logs)
    everything += repr(telemetry.points("toolmend.threads.dangling"))
    assert "someone" not in everything
    assert len(telemetry.spans[0].attributes["gen_ai.conversation.id"]) == 16


# -- switches -----------------------------------------------------------------------------------


def test_the_operator_can_switch_everything_off(
    environment: pytest.MonkeyPatch, telemetry: Captured
) -> None:
    environment.setenv("TOOLMEND_DISABLED", "1")
    messages = dangling()
    assert ask(messages) is messages
    assert telemetry.total("toolmend.model_calls") == 0
    assert toolmend.repair(messages).changed


def test_the_operators_mode_wins_over_every_policy_in_model_call_and_never_in_repair(
    environment: pytest.MonkeyPatch, telemetry: Captured
) -> None:
    environment.setenv("TOOLMEND_MODE", "observe")
    messages = dangling()
    asked = toolmend.model_call(lambda messages: messages, policy=toolmend.Policy(mode="raise"))
    assert asked(messages) is messages
    assert telemetry.total("toolmend.model_calls", outcome="observed") == 1
    assert toolmend.repair(messages).changed


def test_a_setting_that_cannot_work_is_named_and_left_out(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    environment.setenv("TOOLMEND_MODE", "obsrve")
    environment.setenv("TOOLMEND_THREAD_LIMIT", "many")
    assert settings().mode is None
    assert settings().thread_limit == 200
    assert [record.getMessage() for record in caplog.records] == [
        "TOOLMEND_THREAD_LIMIT='many' is ignored; set it to a number from 0 to 900 or remove it",
        "TOOLMEND_MODE='obsrve' is ignored; set it to one of repair, observe, raise or remove it",
    ]


def test_suppressed_instrumentation_stops_telemetry_and_not_the_repair(telemetry: Captured) -> None:
    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        assert len(ask(dangling())) == 4
    finally:
        context.detach(token)
    assert telemetry.total("toolmend.model_calls") == 0
    assert telemetry.spans == ()


QUIET = """
import sys
for name in list(sys.modules):
    assert not name.startswith("opentelemetry.sdk"), name
class NoSdk:
    def find_spec(self, name, *args):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ImportError(name)
sys.meta_path.insert(0, NoSdk())
import toolmend
heavy = {"openai", "anthropic", "langchain_core", "typer", "pydantic", "requests", "httpx"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
@toolmend.model_call
def ask(messages): return len(messages)
call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
history = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "user", "content": "x"}]
assert ask(history) == 3
"""


def test_without_an_sdk_everything_works_and_nothing_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUIET], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
