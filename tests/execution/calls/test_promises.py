"""Promises of whole calls that are easily broken by what surrounds them."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import toolmend
from tests.execution.calls.driving import QUICK, asked
from toolmend.errors import PolicyError
from toolmend.execution import (
    Breaker,
    Fallback,
    ToolCallFailed,
    ToolContext,
    Tools,
    breaker_of,
    tool_call,
    tool_context,
)


def failure(guarded: Any, /, **arguments: Any) -> ToolCallFailed:
    with pytest.raises(ToolCallFailed) as told:
        guarded(**arguments)
    return told.value


def test_a_crowd_of_calls_waits_for_a_worker_and_says_nothing_about_the_tool() -> None:
    tools = Tools()

    @tools.register(effect="read", max_workers=4)
    def slow(n: int) -> int:
        time.sleep(0.02)
        return n

    message = asked(*((f"c{n}", "slow", f'{{"n": {n}}}') for n in range(20)))
    results = tools.run_sync(message)

    assert [result["content"] for result in results] == [str(n) for n in range(20)]
    assert breaker_of(slow).state == "closed"


def test_workers_that_are_all_taken_by_limited_calls_open_no_breaker() -> None:
    tools = Tools()
    settings = Breaker(failures=1)

    @tools.register(retry=None, timeout_seconds=0.2, max_workers=1, breaker=settings)
    def slow(n: int) -> int:
        time.sleep(0.05)
        return n

    message = asked(*((f"c{n}", "slow", f'{{"n": {n}}}') for n in range(4)))
    results = [result["content"] for result in tools.run_sync(message)]

    assert results[0] == "0"
    assert "temporary error" in results[-1]
    assert breaker_of(slow).state == "closed"


def test_a_keyed_tool_has_to_take_its_key() -> None:
    with pytest.raises(PolicyError, match="ToolContext"):
        tool_call(effect="keyed")(lambda amount: amount)


def test_keys_tell_steps_apart_and_stay_for_an_alternative() -> None:
    keys: list[str] = []

    @tool_call(effect="keyed", breaker=None)
    def other(context: ToolContext, amount: int) -> str:
        keys.append(context.idempotency_key)
        return "paid"

    tools = Tools()

    @tools.register(
        effect="keyed", retry=None, breaker=None, fallback=Fallback(tool=other), run_budget=None
    )
    def pay(context: ToolContext, amount: int) -> str:
        raise ConnectionRefusedError

    message = asked(("c1", "pay", '{"amount": 5}'))
    for step in (1, 1, 2):
        with tool_context(run_id="keys of alternatives", step=step):
            tools.run_sync(message)

    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (ValueError("no such city"), False),
        (KeyError("confirmation"), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_mishap_behind_the_effect_is_told_as_such(error: Exception, is_unknown: bool) -> None:
    @tool_call(breaker=None)
    def pay() -> None:
        raise error

    failed = failure(pay)

    assert (failed.error_type, failed.is_outcome_unknown) == ("permanent", is_unknown)
    assert ("check first" in failed.text_for_model) is is_unknown


def test_what_came_up_behind_a_timeout_may_have_happened() -> None:
    runs: list[int] = []

    @tool_call(retry=QUICK, breaker=None)
    def pay() -> None:
        runs.append(1)
        try:
            raise TimeoutError
        except TimeoutError:
            raise ConnectionRefusedError  # noqa: B904 - as it happens in a handler

    failed = failure(pay)

    assert (len(runs), failed.is_outcome_unknown) == (1, True)


async def _hidden() -> str:
    await asyncio.sleep(0)
    return "found"


def test_an_async_function_behind_a_sync_one_is_awaited_or_refused() -> None:
    tools = Tools()
    tools.register(lambda: _hidden(), name="look")

    assert tools.run_sync(asked(("c1", "look", "{}")))[0]["content"] == "found"

    guarded = tool_call(lambda: _hidden(), name="look", breaker=None)
    assert failure(guarded).error_type == "invalid_schema"


async def _async_hook(*_: Any) -> bool:
    return False


@pytest.mark.parametrize("option", ["check_result", "classify", "prepare_arguments"])
def test_hooks_that_nobody_would_await_are_refused(option: str) -> None:
    with pytest.raises(PolicyError, match=f"{option} is called without waiting"):
        tool_call(lambda: None, **{option: _async_hook})


def test_a_sink_that_nobody_would_await_is_refused() -> None:
    tools = Tools()
    tools.register(lambda: "found", name="look")
    with pytest.raises(TypeError, match="sink"):
        tools.run_sync(asked(("c1", "look", "{}")), sink=_async_hook)


def test_a_guarded_tool_is_not_guarded_twice() -> None:
    guarded = tool_call(lambda: None, name="look")
    with pytest.raises(PolicyError, match="guarded already"):
        tool_call(guarded)
    with pytest.raises(PolicyError, match="guarded already"):
        Tools().register(guarded, name="other")


def test_a_human_is_asked_within_the_deadline_or_a_second_of_grace() -> None:
    def human(_: Any) -> str:
        time.sleep(30)
        return "T-1"

    @tool_call(retry=None, breaker=None, fallback=Fallback(human=human))
    def look() -> None:
        raise ConnectionRefusedError

    began = time.monotonic()
    with tool_context(deadline_seconds=0.05):
        failed = failure(look)

    assert failed.ticket is None
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", ["human", "alternative"])
def test_a_sync_fallback_of_an_async_tool_holds_up_no_loop(kind: str) -> None:
    def busy(*_: Any) -> str:
        time.sleep(0.2)
        return "T-1"

    instead: dict[str, Any] = (
        {"human": busy}
        if kind == "human"
        else {"tool": tool_call(lambda: busy(), name="other", breaker=None)}
    )

    @tool_call(retry=None, breaker=None, fallback=Fallback(**instead))
    async def look() -> None:
        raise ConnectionRefusedError

    async def main() -> int:
        beats = 0
        call = asyncio.ensure_future(look())
        while not call.done():
            await asyncio.sleep(0.01)
            beats += 1
        call.exception()
        return beats

    assert asyncio.run(main()) >= 5


@pytest.mark.parametrize("way", ["run_sync", "async call"])
def test_an_event_cancels_batches_and_async_calls_too(way: str) -> None:
    runs: list[int] = []
    cancel = threading.Event()
    cancel.set()

    @tool_call(name="look", breaker=None)
    async def look() -> str:
        runs.append(1)
        return "found"

    tools = Tools()
    tools.register(look)
    with tool_context(cancel=cancel):
        if way == "run_sync":
            text = tools.run_sync(asked(("c1", "look", "{}")))[0]["content"]
        else:
            with pytest.raises(ToolCallFailed) as told:
                asyncio.run(look())
            text = told.value.text_for_model

    assert runs == []
    assert text == "This tool call was cancelled before a result."


def test_an_event_set_while_an_alternative_waits_cancels_the_whole_call() -> None:
    cancel = threading.Event()
    handed: list[ToolCallFailed] = []

    @tool_call(
        retry=toolmend.Retry(initial_seconds=30, max_seconds=30), breaker=None, effect="read"
    )
    def other() -> None:
        cancel.set()
        raise ConnectionResetError

    @tool_call(retry=None, breaker=None, fallback=Fallback(tool=other, value="default"))
    def look() -> None:
        raise ConnectionRefusedError

    with tool_context(cancel=cancel, on_interrupted=handed.append):
        failed = failure(look)

    assert failed.error_type == "cancelled"
    assert [one.error_type for one in handed] == ["cancelled"]
