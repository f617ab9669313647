"""Signals and exits: a process that is told to end while a tool runs hands over the result, and ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.execution.calls.driving import asked
from toolmend.execution import Fallback, Tools, breaker_of, tool_call, tool_context

SCRIPT = """
import asyncio, os, signal, sys, threading, time
import toolmend
from toolmend.execution.context import tool_context
from toolmend.execution.classify import NOT_SENT

def end(*_):
    raise SystemExit(7)

signal.signal(signal.SIGTERM, end)
where, kind = sys.argv[1:]

def told(error):
    print("handed over:", error.error_type, error.is_outcome_unknown, flush=True)

class Limited(Exception):
    status_code = 429
    headers = {"retry-after": "50"}

def stand_still():
    print("ready", flush=True)
    time.sleep(50)

def look():
    if where == "backoff":
        print("ready", flush=True)
        raise Limited
    stand_still()

async def look_async():
    if where == "backoff":
        print("ready", flush=True)
        raise Limited
    print("ready", flush=True)
    await asyncio.sleep(50)

limit = 40 if where == "limited attempt" else None
options = dict(name="look", timeout_seconds=limit, retry=toolmend.Retry(max_attempts=2))
tool = toolmend.tool_call(look_async if kind == "async" else look, **options)
began = time.monotonic()
try:
    if kind == "batch":
        tools = toolmend.Tools()
        tools.register(tool)
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        def sink(results):
            print("handed over:", [one["content"] for one in results], flush=True)
        tools.run_sync(message, sink=sink)
    else:
        with tool_context(call_id="c1", on_interrupted=told):
            asyncio.run(tool()) if kind == "async" else tool()
except BaseException as error:
    print("raised:", type(error).__name__, flush=True)
    assert time.monotonic() - began < 20
    raise
"""

UNKNOWN = "handed over: cancelled True"
PLAIN = "handed over: cancelled False"
IN_BATCH = "This tool call was cancelled before a result."
TERM = (signal.SIGTERM, "SystemExit", 7)
INTERRUPT = (signal.SIGINT, "KeyboardInterrupt", -signal.SIGINT)
CASES = {
    "Ctrl-C in an attempt": ("attempt", "sync", UNKNOWN, *INTERRUPT),
    "Ctrl-C in an attempt with a limit": ("limited attempt", "sync", UNKNOWN, *INTERRUPT),
    "Ctrl-C in a backoff": ("backoff", "sync", PLAIN, *INTERRUPT),
    "Ctrl-C in an async attempt": ("limited attempt", "async", UNKNOWN, *INTERRUPT),
    "Ctrl-C in a batch": ("attempt", "batch", IN_BATCH, *INTERRUPT),
    "SIGTERM in an attempt with a limit": ("limited attempt", "sync", UNKNOWN, *TERM),
    "SIGTERM in a backoff": ("backoff", "sync", PLAIN, *TERM),
    "SIGTERM in an async backoff": ("backoff", "async", PLAIN, *TERM),
    "SIGTERM in a batch": ("attempt", "batch", IN_BATCH, *TERM),
}


@pytest.mark.parametrize(
    ("where", "kind", "told", "sent", "raised", "status"), CASES.values(), ids=CASES
)
def test_a_process_that_is_told_to_end_hands_over_the_result_and_ends(
    where: str, kind: str, told: str, sent: signal.Signals, raised: str, status: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, where, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(sent)
        out, errors = process.communicate(timeout=30)
    assert process.returncode == status, errors
    lines = out.splitlines()
    assert len([line for line in lines if line.startswith("handed over")]) == 1
    assert told in lines[0]
    assert lines[-1] == f"raised: {raised}"
    assert "never" not in errors  # retrieved, awaited


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit], ids=lambda one: one.__name__)
@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
def test_an_exit_that_a_sync_tool_raises_is_handed_over_and_goes_on(
    error: type[BaseException], limit: float | None
) -> None:
    ran: list[int] = []
    handed: list[str] = []

    @tool_call(effect="read", timeout_seconds=limit, fallback=Fallback(value=0))
    def look() -> None:
        ran.append(1)
        raise error

    with (
        tool_context(on_interrupted=lambda one: handed.append(one.error_type)),
        pytest.raises(error),
    ):
        look()
    assert ran == [1]
    assert handed == ["cancelled"]
    assert breaker_of(look).state == "closed"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
@pytest.mark.usefixtures("nothing_left")
def test_an_exit_that_a_tool_of_a_batch_raises_ends_the_program_with_all_results_handed_over(
    limit: float | None, is_async: bool
) -> None:
    sunk: list[list[dict[str, str]]] = []
    tools = Tools()

    def leave() -> None:
        time.sleep(0.05)
        raise SystemExit(3)

    async def leave_async() -> None:
        leave()

    tools.register(
        tool_call(name="leave", timeout_seconds=limit)(leave_async if is_async else leave)
    )
    tools.register(tool_call(name="quick")(lambda: "kept"))
    with pytest.raises(SystemExit, match="3"):
        tools.run_sync(asked(("c1", "leave", "{}"), ("c2", "quick", "{}")), sink=sunk.append)
    [[first, second]] = sunk
    assert first["content"].startswith(IN_BATCH)
    assert second["tool_call_id"] == "c2"
