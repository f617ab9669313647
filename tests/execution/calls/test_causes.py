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
from toolmend.execution import Breaker, Fallback, ToolCallFailed, Tools, breaker_of, tool_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.telemetry_capture import Captured

NO_RESULT = {"role": "user", "content": "next"}


def history(call_id: str, tool: str = "look") -> list[dict[str, Any]]:
    return [{"role": "user", "content": "go"}, asked((call_id, tool, "{}")), NO_RESULT]


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

    ask(history(call_id), thread_id=thread)
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
    plain = toolmend.repair(history(call_id), "openai-chat").messages
    assert sent == [list(plain)]


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
