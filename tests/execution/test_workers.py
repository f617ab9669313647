"""Workers: bounded threads of one tool, which nobody waits for in vain."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import Future

import pytest

from toolmend import Retry, ToolCallFailed, tool_call
from toolmend.execution.workers import Workers, WorkersBusyError

_WAIT = 30


def results(futures: list[Future]) -> list[object]:
    return [future.result(_WAIT) for future in futures]


def test_a_worker_returns_what_the_function_does_and_raises_what_it_raises():
    workers = Workers("t")
    assert workers.submit(lambda: 5).result(_WAIT) == 5
    assert isinstance(workers.submit(lambda: 1 / 0).exception(_WAIT), ZeroDivisionError)

    def leave() -> None:
        raise SystemExit

    assert isinstance(workers.submit(leave).exception(_WAIT), SystemExit)
    assert workers.submit(lambda: 6).result(_WAIT) == 6  # none of it harms the next one


def test_an_idle_worker_is_used_again():
    workers = Workers("t")
    seen = set()
    for _ in range(50):
        seen.add(workers.submit(threading.get_ident).result(_WAIT))
        while not workers._idle:  # it says so a moment after its result is there
            time.sleep(0)
    assert len(seen) == 1


def test_there_are_never_more_than_so_many():
    workers = Workers("t", limit=3)
    let_go = threading.Event()
    hung = [workers.submit(lambda: let_go.wait(_WAIT)) for _ in range(3)]
    began = time.perf_counter()
    for _ in range(10):
        with pytest.raises(WorkersBusyError):
            workers.submit(lambda: None)
    assert time.perf_counter() - began < 5
    let_go.set()
    assert results(hung) == [True] * 3
    while not workers._idle:
        time.sleep(0)
    assert workers.submit(lambda: 7).result(_WAIT) == 7


def test_they_are_daemons_with_a_name():
    thread = Workers("weather").submit(threading.current_thread).result(_WAIT)
    assert (thread.daemon, thread.name) == (True, "toolmend-weather")


def test_a_crowd_gets_every_result_and_no_more_threads_than_allowed():
    workers = Workers("t", limit=4)
    ran: list[int] = []
    refused: list[int] = []
    barrier = threading.Barrier(16)

    def submit(number: int) -> None:
        try:
            future = workers.submit(lambda: number)
        except WorkersBusyError:
            refused.append(1)
        else:
            ran.append(future.result(_WAIT))

    def ask(caller: int) -> None:
        barrier.wait(_WAIT)
        for number in range(100):
            submit(caller * 100 + number)

    threads = [threading.Thread(target=ask, args=(caller,)) for caller in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_WAIT)
    assert len(ran) == len(set(ran))
    assert len(ran) + len(refused) == 1600
    assert workers._count <= 4


def test_work_handed_to_a_worker_that_is_about_to_go_is_done():
    workers = Workers("t", limit=2, idle_seconds=0.0005)  # so that going and coming meet
    for number in range(1500):
        assert workers.submit(lambda n=number: n).result(_WAIT) == number
        time.sleep(0.0004 if number % 3 else 0.0007)
    deadline = time.monotonic() + _WAIT
    while (workers._count, workers._idle) != (0, 0):
        assert time.monotonic() < deadline, (workers._count, workers._idle)
        time.sleep(0.001)


def test_what_is_done_is_let_go_of():
    class Large:
        """Stands for arguments and results."""

    workers = Workers("t")

    def use() -> weakref.ref:
        large = Large()
        workers.submit(lambda held=large: held).result(_WAIT)
        return weakref.ref(large)

    first = use()
    deadline = time.monotonic() + _WAIT
    while first() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert first() is None
    assert workers._count == 1  # while its worker lives


def test_work_that_was_called_off_is_not_begun():
    workers = Workers("t", limit=1)
    let_go, ran = threading.Event(), []
    busy = workers.submit(lambda: let_go.wait(_WAIT))
    future: Future = Future()
    workers._waiting.put((future, lambda: ran.append(1)))
    assert future.cancel()
    let_go.set()
    assert busy.result(_WAIT)
    while workers._waiting.qsize() or not workers._idle:
        time.sleep(0)
    assert ran == []


def test_hung_tools_use_up_their_own_workers_and_nobody_elses():
    let_go = threading.Event()

    @tool_call(timeout_seconds=0.05, max_workers=2, retry=None, breaker=None, effect="read")
    def hung() -> None:
        let_go.wait(_WAIT)

    @tool_call(timeout_seconds=5, max_workers=2)
    def other() -> str:
        return "ok"

    said = []
    for _ in range(5):
        with pytest.raises(ToolCallFailed) as told:
            hung()
        said.append((told.value.error_type, told.value.is_outcome_unknown))
    assert said == [("timeout", False)] * 2 + [("transient", False)] * 3
    assert other() == "ok"
    let_go.set()
    guard = hung.__toolmend_guard__
    deadline = time.monotonic() + _WAIT
    while guard.abandoned_calls() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert guard.abandoned_calls() == 0


def test_a_full_pool_is_worth_another_attempt_also_for_what_may_not_be_repeated():
    """Nothing was run, so nothing can happen twice."""
    let_go = threading.Event()
    runs = []

    @tool_call(timeout_seconds=0.05, max_workers=1, retry=Retry(initial_seconds=0), breaker=None)
    def hung() -> None:
        runs.append(1)
        let_go.wait(_WAIT)

    with pytest.raises(ToolCallFailed) as told:
        hung()
    assert (told.value.error_type, told.value.attempts) == ("outcome_unknown", 1)
    with pytest.raises(ToolCallFailed) as told:
        hung()
    assert (told.value.error_type, told.value.is_outcome_unknown) == ("transient", False)
    assert len(runs) == 1
    let_go.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_workers_breakers_and_records_of_its_own():
    """Forked while other threads hold every lock there is."""
    code = """
        import os, sys, threading, time
        from toolmend import tool_call, tool_context, breaker_of
        from toolmend._call_ends import call_ends
        from toolmend.execution.call import budgets
        from toolmend.telemetry import gauges

        @tool_call(timeout_seconds=5, max_workers=2)
        def look(x: int) -> int:
            return x

        with tool_context(call_id="c1", run_id="r1"):
            assert look(1) == 1
        guard = look.__toolmend_guard__
        locks = [
            guard._lock, guard.signature._lock, guard.arguments._lock, guard.workers._lock,
            breaker_of(look)._lock, budgets._lock, call_ends._lock, gauges._lock,
        ]
        held, let_go = threading.Event(), threading.Event()
        def hold():
            for lock in locks:
                lock.acquire()
            held.set()
            let_go.wait()
            for lock in locks:
                lock.release()
        holder = threading.Thread(target=hold, daemon=True)
        holder.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            with tool_context(call_id="c2", run_id="r1"):
                good = look(2) == 2
            good = good and call_ends.find(None, "c2", "look") is not None and len(gauges._tools()) == 1
            os._exit(0 if good else 3)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            print("hung")
            os._exit(1)
        let_go.set()
        holder.join()
        assert look(3) == 3
        print("child", os.waitstatus_to_exitcode(status))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.strip() == "child 0", ended.stderr


def test_a_process_ends_although_a_tool_hangs():
    code = """
        import time
        from toolmend import tool_call
        @tool_call(timeout_seconds=0.05, retry=None)
        def hung():
            time.sleep(60)
        try:
            hung()
        except Exception as error:
            print(type(error).__name__)
    """
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert ended.stdout.strip() == "ToolCallFailed"
    assert time.monotonic() - began < 45
