"""Many callers at one breaker at the same time: threads, tasks, and both."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.execution.stepping_clock import SteppingClock
from toolmend import ToolCallFailed, breaker_of, tool_call
from toolmend.execution.breaker import Breaker, CircuitBreaker, Permit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLERS = 50
_WAIT = 30


@pytest.fixture(autouse=True)
def _threads_change_places_all_the_time() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@contextmanager
def _pool(workers: int = CALLERS) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(workers) as pool:
        yield pool


def _at_half_open(breaker: CircuitBreaker, clock: SteppingClock) -> None:
    permit = breaker.acquire()
    assert isinstance(permit, Permit)
    breaker.release(permit, "failed")
    clock.forward(60)


def _in_threads(ask: Callable[[], object]) -> list[object]:
    barrier = threading.Barrier(CALLERS)

    def one(_: int) -> object:
        barrier.wait(_WAIT)
        return ask()

    with _pool() as pool:
        return list(pool.map(one, range(CALLERS)))


async def _in_tasks(ask: Callable[[], object]) -> list[object]:
    async def one() -> object:
        await asyncio.sleep(0)
        return ask()

    return await asyncio.gather(*(one() for _ in range(CALLERS)))


def _in_both(ask: Callable[[], object]) -> list[object]:
    barrier = threading.Barrier(CALLERS // 2 + 1)

    def one(_: int) -> object:
        barrier.wait(_WAIT)
        return ask()

    async def tasks() -> list[object]:
        barrier.wait(_WAIT)
        return await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(CALLERS // 4)), _here())

    async def _here() -> object:
        return ask()

    with _pool() as pool:
        threads = [pool.submit(one, number) for number in range(CALLERS // 2)]
        found = asyncio.run(tasks())
        return found + [each.result(_WAIT) for each in threads]


CROWDS = {
    "threads": _in_threads,
    "tasks": lambda ask: asyncio.run(_in_tasks(ask)),
    "both": _in_both,
}


@pytest.mark.parametrize("crowd", CROWDS.values(), ids=CROWDS.keys())
@pytest.mark.parametrize("probes", [1, 3])
def test_a_crowd_at_half_open(crowd, probes):
    for _ in range(20):  # a race is seldom lost at the first try
        clock = SteppingClock()
        breaker = CircuitBreaker(Breaker(failures=1, probes=probes), clock=clock)
        _at_half_open(breaker, clock)
        permits = [one for one in crowd(breaker.acquire) if isinstance(one, Permit)]
        assert len(permits) == probes
        assert len({permit.probe for permit in permits}) == probes
        for permit in permits:
            breaker.release(permit, "ok")
        assert breaker.state == "closed"


def test_every_decision_is_made_under_the_lock():
    held = []

    def clock() -> float:
        held.append(breaker._lock.locked())
        return 1000.0 * len(held)

    breaker = CircuitBreaker(Breaker(failures=1), clock=clock)
    for verdict in ("failed", "failed", "ok"):  # opens, opens again, closes
        permit = breaker.acquire()
        assert isinstance(permit, Permit)
        breaker.release(permit, verdict)
        breaker.is_available()
    assert len(held) > 4
    assert all(held)


def test_every_failure_of_a_crowd_is_counted():
    breaker = CircuitBreaker(Breaker(failures=CALLERS * 20, minimum_calls=10**6, window=10**6))
    ready = threading.Barrier(CALLERS)

    def fail(_: int) -> None:
        ready.wait(_WAIT)
        for _ in range(20):
            permit = breaker.acquire()
            assert isinstance(permit, Permit)
            breaker.release(permit, "failed")

    with _pool() as pool:
        list(pool.map(fail, range(CALLERS)))
    assert breaker.state == "open"


class Sick:
    """A tool that fails until it is let go, and notes how many calls reached it."""

    def __init__(self) -> None:
        self.reached = 0
        self.let_go = threading.Event()
        self._lock = threading.Lock()

    def note(self) -> None:
        with self._lock:
            self.reached += 1


def _open_tool(tool: Callable[[], object]) -> None:
    breaker = breaker_of(tool)
    breaker._clock = clock = SteppingClock()
    _at_half_open(breaker, clock)


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ToolCallFailed as failed:
        return failed.error_type
    return "ok"


async def _outcome_async(call: Callable[[], object]) -> str:
    try:
        await call()
    except ToolCallFailed as failed:
        return failed.error_type
    return "ok"


@pytest.mark.parametrize("probes", [1, 3])
def test_threads_that_call_a_guarded_tool_at_half_open(probes):
    sick = Sick()

    @tool_call(breaker=Breaker(failures=1, probes=probes), retry=None)
    def look() -> None:
        sick.note()
        assert sick.let_go.wait(_WAIT)
        raise ConnectionResetError

    _open_tool(look)
    barrier = threading.Barrier(CALLERS)
    refused = threading.Semaphore(0)

    def one(_: int) -> str:
        barrier.wait(_WAIT)
        found = _outcome(look)
        refused.release()
        return found

    with _pool() as pool:
        running = [pool.submit(one, number) for number in range(CALLERS)]
        for _ in range(CALLERS - probes):  # they come back while the probes still run
            assert refused.acquire(timeout=_WAIT)
        sick.let_go.set()
        found = [each.result(_WAIT) for each in running]
    assert sick.reached == probes
    assert sorted(found) == ["breaker_open"] * (CALLERS - probes) + ["transient"] * probes


@pytest.mark.parametrize("probes", [1, 3])
def test_tasks_that_call_a_guarded_tool_at_half_open(probes):
    sick = Sick()

    async def body() -> list[str]:
        let_go = asyncio.Event()

        @tool_call(breaker=Breaker(failures=1, probes=probes), retry=None)
        async def look() -> None:
            sick.note()
            await let_go.wait()
            raise ConnectionResetError

        _open_tool(look)
        running = [asyncio.create_task(_outcome_async(look)) for _ in range(CALLERS)]
        for refused in itertools.islice(asyncio.as_completed(running), CALLERS - probes):
            assert await refused == "breaker_open"
        let_go.set()
        return await asyncio.gather(*running)

    found = asyncio.run(asyncio.wait_for(body(), _WAIT))
    assert sick.reached == probes
    assert sorted(found) == ["breaker_open"] * (CALLERS - probes) + ["transient"] * probes


@pytest.mark.parametrize("probes", [1, 3])
def test_threads_and_tasks_that_share_a_guarded_tool_at_half_open(probes):
    """One tool under many event loops, most of them in threads of their own."""
    sick = Sick()

    @tool_call(breaker=Breaker(failures=1, probes=probes), retry=None)
    async def look() -> None:
        sick.note()
        await asyncio.to_thread(sick.let_go.wait, _WAIT)

    _open_tool(look)
    barrier = threading.Barrier(CALLERS // 2 + 1)
    done = threading.Semaphore(0)

    async def counted() -> str:
        found = await _outcome_async(look)
        done.release()
        return found

    def in_a_loop_of_its_own(_: int) -> str:
        barrier.wait(_WAIT)
        return asyncio.run(counted())

    async def in_one_loop() -> list[str]:
        await asyncio.to_thread(barrier.wait, _WAIT)
        return await asyncio.gather(*(counted() for _ in range(CALLERS // 2)))

    with _pool(CALLERS // 2 + 1) as pool:
        running = [pool.submit(in_a_loop_of_its_own, number) for number in range(CALLERS // 2)]
        together = pool.submit(lambda: asyncio.run(in_one_loop()))
        for _ in range(CALLERS - probes):
            assert done.acquire(timeout=_WAIT)
        sick.let_go.set()
        found = together.result(_WAIT) + [each.result(_WAIT) for each in running]
    assert sick.reached == probes
    assert sorted(found) == ["breaker_open"] * (CALLERS - probes) + ["ok"] * probes
    assert breaker_of(look).state == "closed"


@pytest.mark.parametrize("verdicts", [("ok", "ok", "failed"), ("ok", "ignored", "ok")])
def test_no_permit_leaks_when_probes_end_in_any_order(verdicts):
    clock = SteppingClock()
    breaker = CircuitBreaker(Breaker(failures=1, probes=3), clock=clock)
    _at_half_open(breaker, clock)
    permits = [breaker.acquire() for _ in range(3)]
    with _pool(3) as pool:
        list(pool.map(breaker.release, permits, verdicts))
    if "failed" in verdicts:
        assert breaker.state == "open"
    else:
        again = breaker.acquire()
        assert isinstance(again, Permit)
        breaker.release(again, "ok")
        assert breaker.state == "closed"
