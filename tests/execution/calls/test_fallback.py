"""Fallbacks: who answers in place of a tool, when, and how it is told; sync and async from one table."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.calls.driving import (
    BATCHED,
    DIRECT,
    LIMITED,
    WAYS,
    Hang,
    Refused,
    Tool,
    make,
    raising,
)
from toolmend.errors import PolicyError
from toolmend.execution import (
    Breaker,
    Escalation,
    Fallback,
    breaker_of,
    tool_call,
    tool_context,
)

if TYPE_CHECKING:
    from tests.unit.telemetry_capture import Captured

DENIED = raising(lambda: Refused(403))
FALLS_BACK: dict[str, tuple[Any, dict[str, Any], str]] = {
    "denied": (DENIED, {}, "denied"),
    "gone": (raising(lambda: Refused(405)), {}, "gone"),
    "not sent": (raising(ConnectionRefusedError), {}, "transient"),
    "transient, read": (raising(ConnectionResetError), {"effect": "read"}, "transient"),
    "rate limited": (raising(lambda: Refused(429)), {}, "rate_limited"),
    "invalid schema": (raising(None), {"arguments_schema": {"type": "odd"}}, "invalid_schema"),
    "invalid result, read": (
        raising(None),
        {"effect": "read", "result_schema": {"type": "array"}, "strict_result": True},
        "invalid_result",
    ),
    "breaker open": (raising(None), {"breaker": Breaker()}, "breaker_open"),
}
UNKNOWN_OUTCOME: dict[str, tuple[Any, dict[str, Any], str]] = {
    "reset": (raising(ConnectionResetError), {}, "transient"),
    "invalid result": (
        raising(None),
        {"result_schema": {"type": "array"}, "strict_result": True},
        "invalid_result",
    ),
}
NEVER: dict[str, tuple[Any, dict[str, Any], str]] = {
    "invalid arguments": (
        raising(None),
        {"arguments_schema": {"required": ["x"]}},
        "invalid_arguments",
    ),
    "permanent": (raising(ValueError("no such city")), {}, "permanent"),
}


def tool_of(way: str, body: Any, fallback: Fallback, **options: Any) -> Tool:
    tool = make(way, body, fallback=fallback, **options)
    if isinstance(options.get("breaker"), Breaker):
        breaker_of(tool.guarded).force_open()
    return tool


def other_of(way: str, body: Any = None, **options: Any) -> Tool:
    kind = "async" if way.startswith("async") else "sync"
    return make(kind, body or (lambda _: "from the other"), name="other", **options)


# -- default values -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("body", "options", "error_type"), FALLS_BACK.values(), ids=FALLS_BACK)
def test_a_default_value_answers_and_the_model_is_told_that_it_is_one(
    body: Any, options: dict[str, Any], error_type: str, way: str, telemetry: Captured
) -> None:
    tool = tool_of(way, body, Fallback(value=["a"]), **options)
    if way in BATCHED:
        assert tool.call() == '["a"]\n(degraded: look is unavailable, this is a default value)'
    else:
        assert tool.call() == ["a"]
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        (("error_type", error_type), ("outcome", "degraded"), ("tool", "look")): 1
    }
    assert telemetry.non_zero("toolmend.fallbacks") == {(("kind", "default"), ("tool", "look")): 1}
    [event] = [log for log in telemetry.logs if log["event"] == "tool_call_failed"]
    assert (event["outcome"], event["error_type"]) == ("degraded", error_type)


@pytest.mark.parametrize("value", [None, "", 0, False], ids=repr)
def test_an_empty_default_is_a_default(value: Any) -> None:
    assert tool_of("sync", DENIED, Fallback(value=value)).call() == value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("body", "options", "error_type"),
    [*NEVER.values(), *UNKNOWN_OUTCOME.values()],
    ids=[*NEVER, *UNKNOWN_OUTCOME],
)
def test_no_value_and_no_other_tool_answers_what_is_wrong_or_may_have_happened(
    body: Any, options: dict[str, Any], error_type: str, way: str, telemetry: Captured
) -> None:
    other = other_of(way)
    tool = tool_of(way, body, Fallback(tool=other.guarded, value="default"), **options)
    assert "default" not in tool.text()
    assert other.runs == []
    assert telemetry.total("toolmend.tool_calls.executed", error_type=error_type) == 1
    assert telemetry.points("toolmend.fallbacks") == {}


@pytest.mark.parametrize("way", LIMITED)
def test_no_other_tool_answers_a_time_limit_that_may_have_happened(way: str) -> None:
    other = other_of(way)
    fallback = Fallback(tool=other.guarded, value="default")
    tool = tool_of(way, lambda _: Hang, fallback, timeout_seconds=0.03)
    assert tool.fails().error_type == "outcome_unknown"
    assert other.runs == []


@pytest.mark.parametrize("way", LIMITED)
def test_another_tool_answers_a_time_limit_of_a_read(way: str) -> None:
    other = other_of(way)
    fallback = Fallback(tool=other.guarded)
    tool = tool_of(way, lambda _: Hang, fallback, timeout_seconds=0.03, effect="read", retry=None)
    assert tool.call() == "from the other"


# -- other tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("body", "options", "error_type"), FALLS_BACK.values(), ids=FALLS_BACK)
def test_another_tool_answers_under_a_span_and_a_count_of_its_own(
    body: Any, options: dict[str, Any], error_type: str, way: str, telemetry: Captured
) -> None:
    other = other_of(way)
    tool = tool_of(way, body, Fallback(tool=other.guarded), **options)
    assert tool.call(q="tea") == "from the other"
    assert other.runs == [{"q": "tea", "n": 0}]
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        (("error_type", error_type), ("outcome", "degraded"), ("tool", "look")): 1,
        (("outcome", "ok"), ("tool", "other")): 1,
    }
    assert telemetry.non_zero("toolmend.fallbacks") == {
        (("kind", "alternative"), ("tool", "look")): 1
    }
    spans = {span.name: span for span in telemetry.spans}
    assert spans["execute_tool other"].parent.span_id == spans["execute_tool look"].context.span_id
    assert spans["execute_tool look"].attributes["toolmend.kind"] == "alternative"


@pytest.mark.parametrize("way", WAYS)
def test_arguments_are_mapped_and_judged_as_the_other_tool_wants_them(way: str) -> None:
    def swap(arguments: Mapping[str, object]) -> dict[str, object]:
        return {"q": "mapped " + str(arguments["q"])}

    other = other_of(way)
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded, map_arguments=swap))
    assert tool.call(q="tea") == "from the other"
    assert other.runs == [{"q": "mapped tea", "n": 0}]


BAD_MAPS: dict[str, Any] = {
    "wrong type": lambda _: {"n": "many"},
    "unknown name": lambda _: {"odd": 1},
    "raises": lambda _: 1 / 0,
    "no mapping": lambda _: 3,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("swap", BAD_MAPS.values(), ids=BAD_MAPS)
def test_arguments_that_the_other_tool_refuses_leave_the_failure_of_the_first(
    swap: Any, way: str, telemetry: Captured
) -> None:
    other = other_of(way)
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded, map_arguments=swap))
    assert tool.text() == "look is unavailable. Use another way."
    assert other.runs == []
    assert telemetry.total("toolmend.tool_calls.executed", outcome="failed", tool="look") == 1


@pytest.mark.parametrize("way", WAYS)
def test_where_the_other_tool_fails_the_default_answers(way: str) -> None:
    other = other_of(way, DENIED)
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded, value="default"))
    assert str(tool.call()).startswith("default")
    assert len(other.runs) == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_fallback_of_a_fallback_is_not_used(way: str) -> None:
    third = other_of(way)
    other = other_of(way, DENIED, fallback=Fallback(tool=third.guarded, value="default of it"))
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded))
    assert tool.text() == "look is unavailable. Use another way."
    assert third.runs == []


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_may_not_be_its_own_last_resort_for_ever(way: str) -> None:
    other = other_of(way, DENIED, breaker=Breaker(failures=1))
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded), breaker=None)
    for _ in range(3):
        tool.text()
    assert len(other.runs) == 1  # its breaker is its own
    assert breaker_of(other.guarded).state == "open"


@pytest.mark.parametrize("way", WAYS)
def test_after_another_tool_that_may_have_acted_no_default_answers(
    way: str, telemetry: Captured
) -> None:
    other = other_of(way, raising(ConnectionResetError))
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded, value="default"))
    assert tool.text() == (
        "look is unavailable. Use another way. "
        "It may have happened all the same: do not repeat it, check first."
    )
    assert len(other.runs) == 1
    assert telemetry.points("toolmend.fallbacks") == {}
    if way in DIRECT:
        failed = tool_of(way, DENIED, Fallback(tool=other.guarded, value="default")).fails()
        assert failed.is_outcome_unknown


@pytest.mark.parametrize("way", WAYS)
def test_after_another_tool_that_may_have_acted_a_human_is_asked(way: str) -> None:
    asked_for: list[Escalation] = []

    def human(escalation: Escalation) -> str:
        asked_for.append(escalation)
        return "T-1"

    other = other_of(way, raising(ConnectionResetError))
    tool = tool_of(way, DENIED, Fallback(tool=other.guarded, human=human))
    assert "T-1" in tool.text()
    [escalation] = asked_for
    assert escalation.is_outcome_unknown


# -- humans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("body", "options", "error_type"),
    [*FALLS_BACK.values(), *UNKNOWN_OUTCOME.values()],
    ids=[*FALLS_BACK, *UNKNOWN_OUTCOME],
)
def test_a_human_is_asked_and_the_model_gets_the_ticket_and_the_time(
    body: Any, options: dict[str, Any], error_type: str, way: str, telemetry: Captured
) -> None:
    asked_for: list[Escalation] = []

    def human(escalation: Escalation) -> str:
        asked_for.append(escalation)
        return "T-1"

    fallback = Fallback(human=human, expires_seconds=90, text_at_expiry="take it as a no.")
    tool = tool_of(way, body, fallback, **options)
    with tool_context(call_id="c1", run_id=f"human {way} {error_type} {id(body)}", thread="t1"):
        text = tool.text(q="tea")
    assert text == (
        "look could not do it, so a human was asked (ticket T-1). "
        "If there is no answer within 90 s: take it as a no."
    )
    [escalation] = asked_for
    assert (escalation.tool_name, escalation.error_type) == ("look", error_type)
    assert escalation.arguments == {"q": "tea"}
    assert escalation.is_outcome_unknown is (body in [row[0] for row in UNKNOWN_OUTCOME.values()])
    assert (escalation.call_id, escalation.thread) == ("c1", "t1")
    assert telemetry.total("toolmend.tool_calls.executed", outcome="degraded") == 1
    assert telemetry.non_zero("toolmend.fallbacks") == {(("kind", "human"), ("tool", "look")): 1}


@pytest.mark.parametrize("way", DIRECT)
def test_the_error_of_an_escalated_call_carries_the_ticket(way: str) -> None:
    failed = tool_of(way, DENIED, Fallback(human=lambda _: "T-1")).fails()
    assert (failed.ticket, failed.error_type) == ("T-1", "denied")
    assert not failed.is_exhausted


@pytest.mark.parametrize("way", ["async", "async, limited", "async in a batch"])
def test_an_async_tool_may_ask_asynchronously(way: str) -> None:
    async def human(_: Escalation) -> str:
        await asyncio.sleep(0.01)
        return "T-2"

    assert "(ticket T-2)" in tool_of(way, DENIED, Fallback(human=human)).text()


def test_a_sync_tool_may_not_ask_asynchronously() -> None:
    async def human(_: Escalation) -> str:
        return "never"

    with pytest.raises(PolicyError, match="look is sync"):
        make("sync", DENIED, fallback=Fallback(human=human))


class Wordless:
    def __str__(self) -> str:
        raise ValueError("no")


FAILING_HUMANS: dict[str, Any] = {
    "raises": lambda _: 1 / 0,
    "returns nothing": lambda _: None,
    "returns what has no text": lambda _: Wordless(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("human", FAILING_HUMANS.values(), ids=FAILING_HUMANS)
def test_a_human_who_cannot_be_asked_leaves_the_failure(
    human: Any, way: str, telemetry: Captured
) -> None:
    tool = tool_of(way, DENIED, Fallback(human=human))
    assert tool.text() == "look is unavailable. Use another way."
    assert telemetry.points("toolmend.fallbacks") == {}
    assert telemetry.total("toolmend.tool_calls.executed", outcome="failed") == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("body", "options", "error_type"), NEVER.values(), ids=NEVER)
def test_no_human_is_asked_about_what_the_model_got_wrong(
    body: Any, options: dict[str, Any], error_type: str, way: str
) -> None:
    asked_for: list[Any] = []
    tool = tool_of(way, body, Fallback(human=asked_for.append), **options)
    tool.text()
    assert asked_for == []


def test_a_human_is_asked_also_where_hung_calls_hold_every_worker() -> None:
    release = threading.Event()
    busy = threading.Event()

    @tool_call(
        name="look",
        timeout_seconds=0.03,
        retry=None,
        max_workers=1,
        effect="read",
        breaker=None,
        fallback=Fallback(human=lambda _: "T-3"),
    )
    def look() -> None:
        busy.set()
        release.wait(20)

    tool = Tool("sync in a batch", look)
    try:
        assert "(ticket T-3)" in tool.in_batch()
        assert busy.is_set()
        assert "(ticket T-3)" in tool.in_batch()
    finally:
        release.set()


# -- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", DIRECT)
def test_a_degraded_answer_is_a_success_for_the_run_and_a_failure_for_the_breaker(
    way: str,
) -> None:
    tool = tool_of(
        way,
        raising(ConnectionRefusedError),
        Fallback(value=0),
        breaker=Breaker(failures=12, minimum_calls=20),
        run_budget=2,
    )
    breaker_of(tool.guarded).reset()
    with tool_context(run_id=f"degraded {way}"):
        for _ in range(4):
            assert tool.call() == 0
    assert len(tool.runs) == 12
    assert breaker_of(tool.guarded).state == "open"


@pytest.mark.parametrize("way", DIRECT)
def test_a_fallback_answers_also_when_the_budget_is_gone(way: str) -> None:
    failing = make(way, raising(ConnectionRefusedError), run_budget=1, retry=None)
    with tool_context(run_id=f"gone {way}"):
        assert failing.fails().is_exhausted
        tool = tool_of(way, raising(None), Fallback(value="default"), run_budget=1)
        assert tool.call() == "default"
        assert tool.runs == []


@pytest.mark.parametrize("way", DIRECT)
def test_a_budget_of_a_run_is_spent_over_its_turns_and_of_no_other(
    way: str, telemetry: Captured
) -> None:
    tool = make(way, raising(ValueError("no such city")), run_budget=2)
    run = f"budget {way}"
    with tool_context(run_id=run, step=1):
        assert not tool.fails().is_exhausted
    with tool_context(run_id=run, step=2):
        assert tool.fails().is_exhausted
    with tool_context(run_id=run, step=3):
        failed = tool.fails()
    assert failed.is_exhausted
    assert (failed.error_type, failed.attempts, failed.is_outcome_unknown) == (
        "permanent",
        0,
        False,
    )
    assert failed.text_for_model == (
        "look failed 2 times in this run and is not tried again here. Use another way."
    )
    assert len(tool.runs) == 2
    with tool_context(run_id=f"{run}, another"):
        assert not tool.fails().is_exhausted
    assert not tool.fails().is_exhausted  # no run, no budget


@pytest.mark.parametrize("way", DIRECT)
def test_a_budget_spent_on_wrong_arguments_does_not_ask_for_more_of_them(way: str) -> None:
    tool = make(way, raising(None), run_budget=1)
    with tool_context(run_id=f"arguments {way}"):
        assert tool.fails(n="many").is_exhausted
        told = tool.fails(n="many").text_for_model
    assert told == "look failed 1 times in this run and is not tried again here. Use another way."


def test_cancelled_and_refused_calls_cost_no_budget() -> None:
    tool = make("sync", raising(None), run_budget=1, breaker=Breaker())
    with tool_context(run_id="costs nothing"):
        breaker_of(tool.guarded).force_open()
        for _ in range(3):
            assert not tool.fails().is_exhausted
        breaker_of(tool.guarded).reset()
        assert tool.call() == "found"
        cancel = threading.Event()
        cancel.set()
        with tool_context(cancel=cancel):
            for _ in range(3):
                assert tool.fails().error_type == "cancelled"
        assert tool.call() == "found"
