"""What each kind of failure leads to: attempts, breaker, text, telemetry, error; sync and async from one table."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import StatusCode

from tests.execution.calls.driving import (
    BATCHED,
    DIRECT,
    LIMITED,
    NEVER_OPEN,
    QUICK,
    WAYS,
    Hang,
    Refused,
    asked,
    make,
    raising,
    tool_span,
)
from toolmend.execution import Breaker, Failure, ToolCallFailed, Tools, breaker_of, tool_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.telemetry_capture import Captured

UNKNOWN = " It may have happened all the same: do not repeat it, check first."
SAFE = ("read", "idempotent", "keyed")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table: what happens, and what follows."""

    id: str
    body: Callable[[int], Any]
    effect: str = "non_idempotent"
    options: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    attempts: int
    error_type: str
    text: str
    verdict: str
    outcome: str = "failed"
    is_unknown: bool = False
    retry_after: float | None = None
    exception: str | None = None
    limited_only: bool = False


def rows() -> list[Row]:
    found = []
    for effect in (*SAFE, "non_idempotent"):
        is_safe = effect in SAFE
        all_or_one = 3 if is_safe else 1
        ambiguous: dict[str, Any] = {
            "effect": effect,
            "attempts": all_or_one,
            "verdict": "failed",
            "is_unknown": not is_safe,
        }
        tries = " in 3 attempts" if is_safe else ""
        unknown = "" if is_safe else UNKNOWN
        temporary = f"look failed{tries}: a temporary error of the tool.{unknown}"
        for name, error in (
            ("reset", ConnectionResetError),
            ("its own TimeoutError", TimeoutError),
            ("502", lambda: Refused(502)),
            ("503", lambda: Refused(503)),
            ("504", lambda: Refused(504)),
            ("unknown class", RuntimeError),
            ("StopIteration", StopIteration),
            ("OSError", OSError),
        ):
            found.append(
                Row(
                    id=f"transient, {name}, {effect}",
                    body=raising(error),
                    error_type="transient",
                    text=temporary,
                    **ambiguous,
                )
            )
        found.append(
            Row(
                id=f"timeout, {effect}",
                body=lambda _: Hang,
                options={"timeout_seconds": 0.05},
                error_type="timeout" if is_safe else "outcome_unknown",
                text=f"look timed out after 0.05 s{' (3 attempts)' if is_safe else ''}.{unknown}",
                outcome="abandoned?",
                limited_only=True,
                **ambiguous,
            )
        )
        found.append(
            Row(
                id=f"strict invalid result, {effect}",
                body=lambda _: {"secret": 1},
                options={"result_schema": {"type": "array"}, "strict_result": True},
                error_type="invalid_result",
                text=f"look returned malformed data.{unknown}",
                **ambiguous,
            )
        )
        found.append(
            Row(
                id=f"not sent, {effect}",
                body=raising(ConnectionRefusedError),
                effect=effect,
                attempts=3,
                error_type="transient",
                text="look failed in 3 attempts: a temporary error of the tool.",
                verdict="failed",
                exception="ConnectionRefusedError",
            )
        )
        found.append(
            Row(
                id=f"rate limited, {effect}",
                body=raising(lambda: Refused(429, retry_after="0")),
                effect=effect,
                attempts=3,
                error_type="rate_limited",
                text="look is rate limited. Retry after 0 s.",
                verdict="ignored",
                retry_after=0.0,
                exception="Refused",
            )
        )
    for effect in ("read", "non_idempotent"):
        found += [
            Row(
                id=f"rate limited for too long, {effect}",
                body=raising(lambda: Refused(429, retry_after="3600")),
                effect=effect,
                attempts=1,
                error_type="rate_limited",
                text="look is rate limited. Retry after 3600 s.",
                verdict="ignored",
                retry_after=3600.0,
            ),
            Row(
                id=f"denied, {effect}",
                body=raising(lambda: Refused(403)),
                effect=effect,
                attempts=1,
                error_type="denied",
                text="look is unavailable. Use another way.",
                verdict="denied",
                exception="Refused",
            ),
            Row(
                id=f"gone, {effect}",
                body=raising(lambda: Refused(405)),
                effect=effect,
                attempts=1,
                error_type="gone",
                text="look is unavailable. Use another way.",
                verdict="gone",
            ),
            Row(
                id=f"permanent, {effect}",
                body=raising(ValueError("there is no city called Atlantis")),
                effect=effect,
                attempts=1,
                error_type="permanent",
                text="there is no city called Atlantis",
                verdict="ok",
                exception="ValueError",
            ),
            Row(
                id=f"permanent by status, {effect}",
                body=raising(lambda: Refused(404)),
                effect=effect,
                attempts=1,
                error_type="permanent",
                text="HTTP 404",
                verdict="ok",
            ),
            Row(
                id=f"permanent by a classifier's word, {effect}",
                body=raising(RuntimeError("sold out")),
                effect=effect,
                options={"classify": lambda error: "permanent"},
                attempts=1,
                error_type="permanent",
                text="sold out",
                verdict="ok",
                exception="RuntimeError",
            ),
            Row(
                id=f"a classifier's own text, {effect}",
                body=raising(RuntimeError),
                effect=effect,
                options={
                    "classify": lambda error: Failure(error_type="gone", message="It moved to B.")
                },
                attempts=1,
                error_type="gone",
                text="It moved to B.",
                verdict="gone",
            ),
            Row(
                id=f"invalid arguments, {effect}",
                body=raising(None),
                effect=effect,
                arguments={"n": "many"},
                attempts=0,
                error_type="invalid_arguments",
                text='The arguments of look are not valid. n: "many" is not of type "integer" '
                "[type]. Fix them and call it again.",
                verdict="ignored",
            ),
            Row(
                id=f"invalid schema, {effect}",
                body=raising(None),
                effect=effect,
                options={"arguments_schema": {"type": "no such type"}},
                attempts=0,
                error_type="invalid_schema",
                text="look is misconfigured and cannot be used. Use another way.",
                verdict="invalid_schema",
                exception="SchemaError",
            ),
        ]
    return found


CASES = [
    pytest.param(way, row, id=f"{row.id}, {way}")
    for row in rows()
    for way in (LIMITED if row.limited_only else DIRECT)
]
BATCH_CASES = [
    pytest.param(way, row, id=f"{row.id}, {way}")
    for row in rows()
    for way in BATCHED
    if row.effect in ("read", "non_idempotent")
]


def outcome_of(row: Row, way: str) -> str:
    """A sync tool that timed out still runs; an async one was cancelled and is over."""
    if row.outcome == "abandoned?":
        return "abandoned" if way.startswith("sync") else "failed"
    return row.outcome


def verdict_of(row: Row, way: str) -> str:
    """Find out what a breaker made of each attempt, from what opens it."""
    every = max(row.attempts, 1)
    settings = Breaker(failures=every + 1, minimum_calls=1_000, window=1_000)
    tool = make(way, row.body, effect=row.effect, **{**row.options, "breaker": settings})
    breaker = breaker_of(tool.guarded)

    def count_a_failure() -> None:
        permit = breaker.acquire()
        if not hasattr(permit, "reason"):
            breaker.release(permit, "failed")

    count_a_failure()
    try:
        tool.call(**row.arguments)
    except ToolCallFailed:
        pass
    if breaker.state == "open":
        return "failed" if breaker.reason == "failures" else breaker.reason
    for _ in range(every):
        count_a_failure()
    return "ignored" if breaker.state == "open" else "ok"


@pytest.mark.parametrize(("way", "row"), CASES)
def test_a_failure_is_told_as_the_table_says(way: str, row: Row, telemetry: Captured) -> None:
    tool = make(way, row.body, effect=row.effect, **row.options)
    with tool_context(call_id="c1", thread="t1"):
        error = tool.fails(**row.arguments)
    assert len(tool.runs) == row.attempts
    assert {
        "text": error.text_for_model,
        "error_type": error.error_type,
        "attempts": error.attempts,
        "is_unknown": error.is_outcome_unknown,
        "call_id": error.call_id,
        "tool": error.tool_name,
        "is_exhausted": error.is_exhausted,
        "ticket": error.ticket,
        "retry_after": error.retry_after_seconds,
    } == {
        "text": row.text,
        "error_type": row.error_type,
        "attempts": row.attempts,
        "is_unknown": row.is_unknown,
        "call_id": "c1",
        "tool": "look",
        "is_exhausted": False,
        "ticket": None,
        "retry_after": row.retry_after,
    }
    outcome = outcome_of(row, way)
    labels = {"tool": "look", "error_type": row.error_type}
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        tuple(sorted({**labels, "outcome": outcome}.items())): 1
    }
    retries = max(row.attempts - 1, 0)
    assert telemetry.non_zero("toolmend.tool_calls.retried") == (
        {tuple(sorted(labels.items())): retries} if retries else {}
    )
    assert telemetry.points("gen_ai.execute_tool.duration") == {tuple(sorted(labels.items())): 1}
    assert telemetry.points("toolmend.fallbacks") == {}

    span = tool_span(telemetry)
    attributes = dict(span.attributes)
    told = attributes.pop("exception.type", None)
    if row.exception is not None:
        assert told == row.exception
    expected = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "t1",
        "toolmend.outcome": outcome,
        "error.type": row.error_type,
    }
    if row.attempts != 1:
        expected["toolmend.attempts"] = row.attempts
    assert attributes == expected
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    attempts = [one for one in telemetry.spans if one.name == "toolmend.attempt"]
    assert [one.attributes["toolmend.attempt"] for one in attempts] == (
        list(range(1, row.attempts + 1)) if row.attempts > 1 else []
    )
    assert {one.status.status_code for one in attempts} <= {StatusCode.ERROR}
    assert {one.attributes["error.type"] for one in attempts} <= {row.error_type}
    assert {one.parent.span_id for one in attempts} <= {span.context.span_id}

    [event] = [one for one in telemetry.logs if one["event"] == "tool_call_failed"]
    assert event.pop("level") == "warning"
    for name in ("exception", "reason", "event", "trace_id", "span_id"):
        event.pop(name, None)
    assert event == {
        "tool": "look",
        "thread": "t1",
        "call_id": "c1",
        "outcome": outcome,
        "error_type": row.error_type,
        "attempts": row.attempts,
    }


@pytest.mark.parametrize(("way", "row"), CASES)
def test_a_breaker_makes_of_it_what_the_table_says(way: str, row: Row) -> None:
    assert verdict_of(row, way) == row.verdict


@pytest.mark.parametrize(("way", "row"), BATCH_CASES)
def test_a_batch_hands_over_the_same_text_as_a_result(
    way: str, row: Row, telemetry: Captured
) -> None:
    tool = make(way, row.body, effect=row.effect, **row.options)
    assert tool.text(**row.arguments) == row.text
    assert len(tool.runs) == row.attempts
    assert telemetry.total("toolmend.tool_calls.executed", error_type=row.error_type) == 1


# -- what is no failure ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", DIRECT)
def test_a_value_is_returned_and_told_as_a_success(way: str, telemetry: Captured) -> None:
    tool = make(way, lambda run: {"run": run})
    assert tool.call(q="x") == {"run": 1}
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        (("outcome", "ok"), ("tool", "look")): 1
    }
    assert telemetry.points("gen_ai.execute_tool.duration") == {(("tool", "look"),): 1}
    span = tool_span(telemetry)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "toolmend.outcome": "ok",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert telemetry.logs == []


@pytest.mark.parametrize("way", WAYS)
def test_no_value_is_a_success_that_the_model_is_told_of(way: str, telemetry: Captured) -> None:
    tool = make(way, lambda _: None)
    assert tool.call() == ("done, no output" if way in BATCHED else None)
    assert telemetry.total("toolmend.tool_calls.executed", outcome="ok") == 1


@pytest.mark.parametrize("way", DIRECT)
def test_a_malformed_result_passes_with_a_mark_where_results_are_not_strict(
    way: str, telemetry: Captured
) -> None:
    row = Row(
        id="",
        body=lambda _: {"private": "data"},
        options={"result_schema": {"type": "array"}},
        attempts=1,
        error_type="",
        text="",
        verdict="ok",
    )
    assert make(way, row.body, **row.options).call() == {"private": "data"}
    span = tool_span(telemetry)
    assert span.status.status_code is StatusCode.UNSET
    assert [(event.name, dict(event.attributes)) for event in span.events] == [
        ("toolmend.invalid", {"toolmend.reason": "type"})
    ]
    assert telemetry.logs == []
    assert verdict_of(row, way) == "ok"


@pytest.mark.parametrize("way", DIRECT)
def test_a_call_that_succeeds_at_last_is_a_success_with_retries(
    way: str, telemetry: Captured
) -> None:
    tool = make(way, raising(ConnectionResetError, Refused(503), None), effect="read")
    assert tool.call() == "found"
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        (("outcome", "ok"), ("tool", "look")): 1
    }
    assert telemetry.total("toolmend.tool_calls.retried", error_type="transient") == 2
    span = tool_span(telemetry)
    assert span.attributes["toolmend.attempts"] == 3
    assert span.status.status_code is StatusCode.UNSET
    attempts = [one for one in telemetry.spans if one.name == "toolmend.attempt"]
    assert [one.status.status_code for one in attempts] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", DIRECT)
def test_an_open_breaker_refuses_at_once_and_is_not_retried(way: str, telemetry: Captured) -> None:
    settings = Breaker(failures=1, open_seconds=100)
    tool = make(way, raising(ConnectionResetError), effect="read", breaker=settings)
    assert tool.fails().error_type == "transient"  # the breaker ends the loop of attempts
    assert len(tool.runs) == 1
    error = tool.fails()
    assert (error.error_type, error.attempts, error.is_outcome_unknown) == (
        "breaker_open",
        0,
        False,
    )
    assert error.retry_after_seconds == pytest.approx(100, abs=10)
    assert error.text_for_model.startswith("look is unavailable. Retry in ")
    assert len(tool.runs) == 1
    last = telemetry.spans[-1]
    assert last.attributes["error.type"] == "breaker_open"
    assert last.status.status_code is StatusCode.ERROR
    assert [log["event"] for log in telemetry.logs if log["level"] == "error"] == ["breaker_opened"]


def test_a_tool_with_a_broken_schema_is_logged_once_also_where_a_fallback_answers(
    telemetry: Captured,
) -> None:
    from toolmend.execution import Fallback

    for fallback in (None, Fallback(value="nothing")):
        tool = make(
            "sync",
            raising(None),
            name=f"look{fallback is None}",
            arguments_schema={"type": "no such type"},
            fallback=fallback,
        )
        for _ in range(3):
            with suppress(ToolCallFailed):
                tool.call()
    told = [log["tool"] for log in telemetry.logs if log["event"] == "tool_misconfigured"]
    assert told == ["lookTrue", "lookFalse"]


def test_an_unknown_tool_gets_the_known_names_closest_first(telemetry: Captured) -> None:
    tools = Tools()
    for name in ["unlock", "look_up", *(f"other_{n}" for n in range(30))]:
        tools.register(make("sync", raising(None), name=name).guarded)
    [result] = tools.run_sync(asked(("c1", "lookup", "{}")))
    told = result["content"]
    assert told.startswith("There is no tool called 'lookup'. Use one of: look_up, unlock, ")
    assert told.count(",") == 19  # twenty names
    assert telemetry.non_zero("toolmend.tool_calls.executed") == {
        (("error_type", "unknown_tool"), ("outcome", "failed"), ("tool", "_OTHER")): 1
    }
    [span] = telemetry.spans
    assert span.name == "execute_tool _OTHER"
    assert span.attributes["error.type"] == "unknown_tool"
    assert span.status.status_code is StatusCode.ERROR


def test_a_name_of_any_length_is_compared_in_no_time() -> None:
    tools = Tools()
    for n in range(20):
        tools.register(make("sync", raising(None), name=f"tool_{n}_" + "ab" * 50).guarded)
    [result] = tools.run_sync(asked(("c1", "ab" * 1_000_000, "{}")))
    assert len(result["content"]) < 4_000


# -- effects --------------------------------------------------------------------------------------

AMBIGUOUS: dict[str, Any] = {
    "reset": ConnectionResetError,
    "broken pipe": BrokenPipeError,
    "aborted": ConnectionAbortedError,
    "timeout of its own": TimeoutError,
    "500": lambda: Refused(500),
    "502": lambda: Refused(502),
    "503": lambda: Refused(503),
    "504": lambda: Refused(504),
    "408": lambda: Refused(408),
    "unknown": RuntimeError,
    "unknown to everybody": type("Odd", (Exception,), {}),
    "assertion": AssertionError,
    "recursion": RecursionError,
    "memory": MemoryError,
    "key": lambda: Refused(599),
}
NOT_SENT: dict[str, Any] = {
    "refused": ConnectionRefusedError,
    "dns": __import__("socket").gaierror,
    "429": lambda: Refused(429, retry_after="0"),
    "425": lambda: Refused(425),
    "423": lambda: Refused(423),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_may_have_happened_never_happens_twice(error: Any, way: str) -> None:
    effects: list[int] = []

    def body(run: int) -> Any:
        effects.append(run)
        raise error()

    tool = make(way, body)
    assert tool.text().endswith(UNKNOWN)
    assert effects == [1]


@pytest.mark.parametrize("way", LIMITED)
def test_a_timeout_of_what_may_have_happened_never_makes_it_happen_twice(way: str) -> None:
    tool = make(way, lambda _: Hang, timeout_seconds=0.03)
    assert tool.fails().error_type == "outcome_unknown"
    assert len(tool.runs) == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", NOT_SENT.values(), ids=NOT_SENT)
def test_what_was_not_sent_is_tried_again_whatever_the_effect(error: Any, way: str) -> None:
    tool = make(way, raising(error, error, None))
    assert tool.call() == "found"
    assert len(tool.runs) == 3


@pytest.mark.parametrize("way", WAYS)
def test_what_was_not_sent_first_and_then_may_have_happened_is_not_tried_again(way: str) -> None:
    tool = make(way, raising(ConnectionRefusedError, ConnectionResetError, None))
    assert tool.text().endswith(UNKNOWN)
    assert len(tool.runs) == 2


@pytest.mark.parametrize("way", DIRECT)
def test_a_keyed_tool_gets_one_key_for_all_its_attempts_and_another_for_another_call(
    way: str,
) -> None:
    from toolmend.execution import ToolContext, tool_call

    keys: list[tuple[str, int]] = []

    def pay(context: ToolContext) -> None:
        keys.append((context.idempotency_key, context.attempt))
        raise ConnectionResetError

    async def pay_async(context: ToolContext) -> None:
        pay(context)

    function = pay_async if way.startswith("async") else pay
    limit = 5.0 if way in LIMITED else None
    guarded = tool_call(effect="keyed", retry=QUICK, breaker=NEVER_OPEN, timeout_seconds=limit)(
        function
    )

    def call() -> None:
        import asyncio

        with pytest.raises(ToolCallFailed):
            asyncio.run(guarded()) if way.startswith("async") else guarded()

    with tool_context(call_id="c1", run_id=f"keyed, {way}", step=1):
        call()
    with tool_context(call_id="c1", run_id=f"keyed, {way}", step=1):
        call()
    with tool_context(call_id="c2", run_id=f"keyed, {way}", step=1):
        call()
    assert [attempt for _, attempt in keys] == [1, 2, 3] * 3
    first, again, other = ({key for key, _ in keys[n : n + 3]} for n in (0, 3, 6))
    assert len(first) == len(other) == 1
    assert first == again
    assert first != other
