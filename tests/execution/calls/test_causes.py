"""Why a call has no result: what a guarded tool remembers, a later model call tells."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import toolmend
from tests.execution.calls.driving import (
    QUICK,
    GraphBubbleUp,
    Hang,
    Refused,
    asked,
    make,
    raising,
    tool_span,
)
from toolmend import BrokenHistoryError, Policy, Repair
from toolmend.execution import (
    Breaker,
    Fallback,
    ToolCallFailed,
    Tools,
    breaker_of,
    tool_call,
    tool_context,
)
from toolmend.settings import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.telemetry_capture import Captured

NO_RESULT = {"role": "user", "content": "next"}


def history(call_id: str, tool: str = "look", arguments: Any = None) -> list[dict[str, Any]]:
    written = json.dumps(arguments or {})
    return [{"role": "user", "content": "go"}, asked((call_id, tool, written)), NO_RESULT]


def end_well(way: str) -> Any:
    return make(way, lambda _: "value")


def time_out(way: str) -> Any:
    return make(way, lambda _: Hang, timeout_seconds=0.03, effect="read", retry=None)


def time_out_unknown(way: str) -> Any:
    return make(way, lambda _: Hang, timeout_seconds=0.03)


def refuse(way: str) -> Any:
    tool = make(way, raising(None), breaker=Breaker())
    breaker_of(tool.guarded).force_open()
    return tool


ENDS: dict[str, tuple[Callable[[str], Any], dict[str, Any], str]] = {
    "ended well": (end_well, {}, "result_lost"),
    "degraded": (
        lambda way: make(way, raising(lambda: Refused(403)), fallback=Fallback(value=0)),
        {},
        "result_lost",
    ),
    "timed out": (time_out, {}, "timeout"),
    "timed out, outcome unknown": (time_out_unknown, {}, "timeout"),
    "failed": (lambda way: make(way, raising(ConnectionResetError)), {}, "tool_error"),
    "denied": (lambda way: make(way, raising(lambda: Refused(401))), {}, "tool_error"),
    "permanent": (lambda way: make(way, raising(ValueError)), {}, "tool_error"),
    "wrong arguments": (end_well, {"n": "many"}, "tool_error"),
    "breaker open": (refuse, {}, "breaker_open"),
    "interrupted by a framework": (lambda way: make(way, raising(GraphBubbleUp)), {}, "cancelled"),
    "interrupted": (lambda way: make(way, raising(KeyboardInterrupt)), {}, "cancelled"),
}
LIMITED_WAYS = ("sync, limited", "async, limited")
UNIQUE = iter(range(10_000))


def run(how: str, way: str, end: str, call_id: str, thread: str | None) -> str:
    """Let a call end so, with its result lost, and return the cause that should be known."""
    made, arguments, cause = ENDS[end]
    tool = made(way)
    with suppress(ToolCallFailed, GraphBubbleUp, KeyboardInterrupt):
        if how == "Tools.run":
            tools = Tools()
            tools.register(tool.guarded)
            tools.run_sync(asked((call_id, "look", json.dumps(arguments))), thread=thread)
        else:
            with tool_context(call_id=call_id, thread=thread):
                tool.call(**arguments)
    return cause


CASES = [
    pytest.param(how, way, end, id=f"{end}, {how}, {way}")
    for end in ENDS
    for how in ("Tools.run", "tool_context")
    for way in LIMITED_WAYS
    if not (end == "interrupted" and (how == "Tools.run" or way.startswith("async")))
]


@pytest.mark.parametrize(("how", "way", "end"), CASES)
def test_a_dangling_call_is_counted_with_its_known_cause_and_linked_to_its_span(
    how: str, way: str, end: str, telemetry: Captured
) -> None:
    call_id, thread = f"cause-{next(UNIQUE)}", "t-1"
    cause = run(how, way, end, call_id, thread)
    told: list[Repair] = []
    sent: list[Any] = []

    @toolmend.model_call(model="m", provider="openai", on_repair=told.append)
    def ask(messages: Any, thread_id: str | None = None) -> None:
        sent.append(messages)

    given = history(call_id, "look", ENDS[end][1])
    ask(given, thread_id=thread)
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", cause), ("tool", "look")): 1
    }
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry).context]
    [event] = span.events
    assert event.attributes["toolmend.cause"] == cause
    [repair] = told
    assert [finding.cause for finding in repair.findings] == [cause]
    [log] = [one for one in telemetry.logs if one["event"] == "tool_calls_mended"]
    assert list(log["causes"]) == [cause]
    # The text is that of the shape alone, which any process would write.
    plain = toolmend.repair(given, "openai-chat").messages
    assert sent == [list(plain)]


@pytest.fixture
def spans_of_repairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TOOLMEND_SPANS", "repairs")
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.mark.parametrize("how", ["Tools.run", "tool_context"])
@pytest.mark.parametrize("end", [end for end in ENDS if end != "interrupted"])
@pytest.mark.usefixtures("spans_of_repairs")
def test_where_only_failures_have_spans_the_link_leads_to_them(
    how: str, end: str, telemetry: Captured
) -> None:
    call_id = f"cause-{next(UNIQUE)}"
    run(how, "sync, limited", end, call_id, "t-1")

    @toolmend.model_call
    def ask(messages: Any, thread_id: str | None = None) -> None:
        pass

    ask(history(call_id, "look", ENDS[end][1]), thread_id="t-1")
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    found = [one.context for one in telemetry.spans if one.name == "execute_tool look"]
    assert len(found) == (end != "ended well")
    assert [link.context for link in span.links] == found


@pytest.mark.usefixtures("spans_of_repairs")
def test_where_only_failures_have_spans_an_unknown_tool_is_linked(telemetry: Captured) -> None:
    Tools().run_sync(asked(("cause-no", "nobody", "{}")), thread="t-1")

    @toolmend.model_call
    def ask(messages: Any, thread_id: str | None = None) -> None:
        pass

    ask(history("cause-no", "nobody"), thread_id="t-1")
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry, "_OTHER").context]


def test_texts_change_only_where_the_policy_says_so() -> None:
    call_id = "cause-text"
    run("tool_context", "sync, limited", "timed out", call_id, "t-text")
    template = "No result ({cause})."
    sent: list[Any] = []

    def ask(policy: Policy) -> str:
        @toolmend.model_call(policy=policy)
        def call(messages: Any, thread_id: str | None = None) -> None:
            sent.append(messages)

        call(history(call_id), thread_id="t-text")
        return str(sent[-1][2]["content"])

    assert ask(Policy(placeholder=template)) == "No result (interrupted)."
    assert ask(Policy(placeholder=template, text_from_record=True)) == "No result (timeout)."


def test_raising_tells_the_known_cause(telemetry: Captured) -> None:
    run("tool_context", "sync, limited", "timed out", "cause-raise", "t-raise")

    @toolmend.model_call(policy=Policy(mode="raise"))
    def ask(messages: Any, thread_id: str | None = None) -> None:
        raise AssertionError("not called")

    with pytest.raises(BrokenHistoryError) as caught:
        ask(history("cause-raise"), thread_id="t-raise")
    assert [finding.cause for finding in caught.value.findings] == ["timeout"]
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "timeout"), ("tool", "look")): 1
    }
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry).context]


def test_observing_tells_the_known_cause_and_changes_nothing(telemetry: Captured) -> None:
    run("tool_context", "sync, limited", "timed out", "cause-observe", "t-observe")
    sent: list[Any] = []

    @toolmend.model_call(policy=Policy(mode="observe"))
    def ask(messages: Any, thread_id: str | None = None) -> None:
        sent.append(messages)

    given = history("cause-observe")
    ask(given, thread_id="t-observe")
    assert sent[0] is given
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "timeout"), ("tool", "look")): 1
    }
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry).context]


STRANGERS: dict[str, tuple[str | None, str | None, str, str]] = {
    "another thread": ("t-a", "t-b", "look", "interrupted"),
    "the same thread": ("t-c", "t-c", "look", "timeout"),
    "another tool of that id": ("t-d", "t-d", "other", "interrupted"),
    "no thread where the tool ran": (None, "t-e", "look", "timeout"),
    "no thread where the model is called": ("t-f", None, "look", "timeout"),
}


@pytest.mark.parametrize(("ran", "asks", "tool", "cause"), STRANGERS.values(), ids=STRANGERS)
def test_calls_of_other_threads_are_not_mixed_up(
    ran: str | None, asks: str | None, tool: str, cause: str, telemetry: Captured
) -> None:
    call_id = f"cause-{ran}-{asks}"
    run("tool_context", "sync, limited", "timed out", call_id, ran)

    @toolmend.model_call
    def ask(messages: Any, thread_id: str | None = None) -> None:
        pass

    ask(history(call_id, tool), thread_id=asks)
    assert telemetry.non_zero("toolmend.dangling.causes") == {(("cause", cause), ("tool", tool)): 1}
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert len(span.links) == (cause == "timeout")


def test_two_threads_with_one_id_each_know_their_own(telemetry: Captured) -> None:
    run("tool_context", "sync, limited", "timed out", "cause-two", "t-one")
    run("tool_context", "sync, limited", "failed", "cause-two", "t-two")

    @toolmend.model_call
    def ask(messages: Any, thread_id: str | None = None) -> None:
        pass

    ask(history("cause-two"), thread_id="t-one")
    ask(history("cause-two"), thread_id="t-two")
    ask(history("cause-two"))  # of which of the two nobody knows
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "interrupted"), ("tool", "look")): 1,
        (("cause", "timeout"), ("tool", "look")): 1,
        (("cause", "tool_error"), ("tool", "look")): 1,
    }


def test_a_cancelled_call_is_told_as_cancelled(telemetry: Captured) -> None:
    async def main() -> None:
        tool = make("async", lambda _: Hang)
        tools = Tools()
        tools.register(tool.guarded)
        run = tools.run(asked(("cause-cancel", "look", "{}")), thread="t-cancel")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run, 0.05)

    asyncio.run(main())

    @toolmend.model_call
    def ask(messages: Any) -> None:
        pass

    with toolmend.thread("t-cancel"):
        ask(history("cause-cancel"))
    assert telemetry.non_zero("toolmend.dangling.causes") == {
        (("cause", "cancelled"), ("tool", "look")): 1
    }


def test_an_unknown_tool_is_told_as_an_error_of_the_tool(telemetry: Captured) -> None:
    Tools().run_sync(asked(("cause-nobody", "nobody", "{}")), thread="t-nobody")

    @toolmend.model_call
    def ask(messages: Any) -> None:
        pass

    with toolmend.thread("t-nobody"):
        ask(history("cause-nobody", "nobody"))
    assert telemetry.total("toolmend.dangling.causes", cause="tool_error") == 1
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry, "_OTHER").context]


def test_a_call_that_still_runs_is_linked_and_its_cause_is_that_of_the_shape(
    telemetry: Captured,
) -> None:
    release, began = threading.Event(), threading.Event()

    def body(_: int) -> str:
        began.set()
        release.wait(20)
        return "value"

    tool = make("sync", body)

    def work() -> None:
        with tool_context(call_id="cause-runs", thread="t-runs"):
            tool.call()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(10)

    @toolmend.model_call
    def ask(messages: Any, thread_id: str) -> None:
        pass

    try:
        ask(history("cause-runs"), thread_id="t-runs")
    finally:
        release.set()
        thread.join()
    assert telemetry.total("toolmend.dangling.causes", cause="interrupted") == 1
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    assert [link.context for link in span.links] == [tool_span(telemetry).context]


def test_a_call_that_is_repeated_is_known_by_its_last_end(telemetry: Captured) -> None:
    tool = make("sync", raising(ConnectionResetError, None), retry=QUICK)
    with tool_context(call_id="cause-last", thread="t-last"):
        tool.fails()
        assert tool.call() == "found"

    @toolmend.model_call
    def ask(messages: Any, thread_id: str) -> None:
        pass

    ask(history("cause-last"), thread_id="t-last")
    assert telemetry.total("toolmend.dangling.causes", cause="result_lost") == 1


def test_without_a_call_id_nothing_is_remembered(telemetry: Captured) -> None:
    run("tool_context", "sync, limited", "timed out", None, "t-none")  # type: ignore[arg-type]

    @toolmend.model_call
    def ask(messages: Any, thread_id: str) -> None:
        pass

    ask(history("cause-none"), thread_id="t-none")
    assert telemetry.total("toolmend.dangling.causes", cause="interrupted") == 1


def call(how: str, call_id: str, arguments: dict[str, Any], thread: str | None) -> None:
    """Call a tool that finds what is good, and raises for what is bad."""

    @tool_call(name="look", retry=None, breaker=None)
    def look(q: str) -> str:
        if q.startswith("bad"):
            raise ValueError(q)
        return q

    if how == "Tools.run":
        tools = Tools()
        tools.register(look)
        tools.run_sync(asked((call_id, "look", json.dumps(arguments))), thread=thread)
    else:
        with tool_context(call_id=call_id, thread=thread), suppress(ToolCallFailed):
            look(**arguments)


BAD, GOOD = {"q": "bad"}, {"q": "good"}


@pytest.mark.parametrize("first", [BAD, GOOD], ids=["bad first", "good first"])
@pytest.mark.parametrize("how", ["Tools.run", "tool_context"])
@pytest.mark.parametrize("mode", ["repair", "observe", "raise"])
@pytest.mark.parametrize("thread", [None, "t-shared"])
def test_calls_that_share_an_id_in_one_thread_or_in_none_each_know_their_own(
    thread: str | None, mode: Any, how: str, first: dict[str, Any], telemetry: Captured
) -> None:
    call_id = "call_0"
    for arguments in (first, GOOD if first is BAD else BAD):
        call(how, call_id, arguments, thread)
    spans = {
        span.attributes["toolmend.outcome"]: span.context
        for span in telemetry.spans
        if span.name == "execute_tool look"
    }

    @toolmend.model_call(policy=Policy(mode=mode))
    def ask(messages: Any, thread_id: str | None = None) -> None:
        pass

    for arguments, outcome, cause in (
        (BAD, "failed", "tool_error"),
        (GOOD, "ok", "result_lost"),
        ({"q": "never called"}, None, "interrupted"),
    ):
        with suppress(BrokenHistoryError):
            ask(history(call_id, "look", arguments), thread_id=thread)
        span = [one for one in telemetry.spans if one.name == "toolmend.model_call"][-1]
        assert [link.context for link in span.links] == ([spans[outcome]] if outcome else [])
        [event] = [one for one in span.events if one.name == "toolmend.finding"]
        assert event.attributes["toolmend.cause"] == cause


@pytest.mark.parametrize("mode", ["repair", "observe", "raise"])
@pytest.mark.parametrize("is_told", [False, True], ids=["text as ever", "text from the record"])
def test_two_batches_of_one_history_that_share_an_id_each_know_their_own(
    is_told: bool, mode: Any, telemetry: Captured
) -> None:
    for arguments in (BAD, GOOD):
        call("Tools.run", "call_0", arguments, "t-turns")
    call("Tools.run", "call_1", BAD, "t-turns")
    given = [
        *history("call_0", "look", BAD),
        asked(("call_0", "look", json.dumps(GOOD))),
        NO_RESULT,
        asked(("call_1", "look", json.dumps(BAD))),
        NO_RESULT,
    ]
    sent: list[Any] = []
    policy = Policy(mode=mode, placeholder="No result ({cause}).", text_from_record=is_told)

    @toolmend.model_call(policy=policy)
    def ask(messages: Any, thread_id: str) -> None:
        sent.append(messages)

    with suppress(BrokenHistoryError):
        ask(given, thread_id="t-turns")
    [span] = [one for one in telemetry.spans if one.name == "toolmend.model_call"]
    causes = [
        event.attributes["toolmend.cause"]
        for event in span.events
        if event.attributes.get("toolmend.finding") == "dangling_call"
    ]
    assert causes == ["tool_error", "result_lost", "tool_error"]
    assert len(span.links) == 3
    if mode == "repair":
        texts = [one["content"] for one in sent[0] if one["role"] == "tool"]
        last = "tool_error" if is_told else "interrupted"
        assert texts == [f"No result ({cause})." for cause in ("interrupted", "interrupted", last)]


def test_arguments_that_somebody_added_by_hand_do_not_hide_a_cause(telemetry: Captured) -> None:
    call("tool_context", "call_added", {"q": "bad, for user 5"}, "t-added")

    @toolmend.model_call
    def ask(messages: Any, thread_id: str) -> None:
        pass

    ask(history("call_added", "look", BAD), thread_id="t-added")
    assert telemetry.total("toolmend.dangling.causes", cause="tool_error") == 1
