"""An application for the stack whose tools are guarded: their calls end in every way that there is.

What it does is written down above it, so that tests can ask whether the board says the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time

import structlog

import toolmend
from toolmend.telemetry import names

SERVICE = "guarded"
THREAD = "ann"
METRICS = (
    names.TOOL_CALLS_EXECUTED,
    names.TOOL_DURATION,
    names.TOOL_CALLS_RETRIED,
    names.TOOL_CALLS_ABANDONED,
    names.BREAKER_STATE,
    names.BREAKER_TRANSITIONS,
    names.FALLBACKS,
)
"""What tools tell; all other metrics are told by model calls."""

EXECUTED = {
    ("weather", "ok", ""): 5,
    ("search", "ok", ""): 2,
    ("flaky", "ok", ""): 3,
    ("crm", "failed", "transient"): 5,
    ("crm", "failed", "breaker_open"): 2,
    ("quote", "degraded", "transient"): 3,
    ("slow", "failed", "timeout"): 2,
    ("slow", "cancelled", "cancelled"): 1,
    ("stuck", "abandoned", "timeout"): 1,
    ("admin", "failed", "breaker_open"): 1,
    (names.OTHER, "failed", "unknown_tool"): 1,
}
RETRIED = {("flaky", "transient"): 3}
FALLBACKS = {("quote", "default"): 3}
TRANSITIONS = {
    ("crm", "closed", "open", "failures"): 1,
    ("admin", "closed", "forced_open", "forced"): 1,
}
STILL_RUNNING = {"stuck": 1}
OPEN = {"crm"}
FORCED_OPEN = {"admin"}

_LIMIT_SECONDS = 0.05
_EXPORT_SECONDS = 1.5
"""Metrics go out once a second here; a gauge has to be met while it stands."""


def guard(*, retry_attempts=1, **options):
    return toolmend.tool_call(
        effect="idempotent",
        retry=toolmend.Retry(
            max_attempts=retry_attempts, initial_seconds=0.01, max_seconds=_LIMIT_SECONDS
        ),
        **options,
    )


def call(tool, times, *arguments):
    for _ in range(times):
        with contextlib.suppress(toolmend.ToolCallFailed):
            tool(*arguments)


def call_what_ends():
    @guard()
    def weather(city):
        return f"mild in {city}"

    tries = iter(range(100))

    @guard(retry_attempts=2)
    def flaky():
        if next(tries) % 2 == 0:
            raise ConnectionResetError("every first attempt")
        return "there"

    @guard(breaker=toolmend.Breaker(failures=5, open_seconds=600))
    def crm():
        raise ConnectionResetError("always")

    @guard(fallback=toolmend.Fallback(value="about 10"))
    def quote():
        raise ConnectionResetError("always")

    @guard(breaker=toolmend.Breaker())
    def admin():
        return "never reached"

    call(weather, 5, "Rome")
    call(flaky, 3)
    call(crm, 7)
    call(quote, 3)
    toolmend.breaker_of(admin).force_open()
    call(admin, 1)
    return weather, flaky, crm, quote, admin


async def call_what_waits():
    @guard(timeout_seconds=_LIMIT_SECONDS)
    async def slow():
        await asyncio.sleep(60)

    for _ in range(2):
        with contextlib.suppress(toolmend.ToolCallFailed):
            await slow()
    task = asyncio.ensure_future(slow())
    await asyncio.sleep(_LIMIT_SECONDS / 5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return slow


async def run_what_a_model_asks_for():
    tools = toolmend.Tools()

    @tools.register(effect="read")
    def search(query):
        return f"nothing about {query}"

    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": name, "arguments": '{"query": "tea"}'},
            }
            for number, name in enumerate(["search", "search", "a tool that the model made up"])
        ],
    }
    await tools.run(message, thread=THREAD, run_id="run-1")
    return tools


def main(endpoint):
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    let_go = threading.Event()
    with toolmend.setup_telemetry(SERVICE, endpoint=endpoint):

        @guard(timeout_seconds=_LIMIT_SECONDS)
        def stuck():
            let_go.wait(60)

        # They are shown for as long as they live.
        alive = [
            call_what_ends(),
            asyncio.run(call_what_waits()),
            asyncio.run(run_what_a_model_asks_for()),
        ]
        call(stuck, 1)
        time.sleep(_EXPORT_SECONDS)
        assert all(alive)
    # Now that the last export has met it.
    let_go.set()


if __name__ == "__main__":
    main(sys.argv[1])
