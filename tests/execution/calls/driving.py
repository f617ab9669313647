"""One tool in every way it can be called: sync and async, with and without a time limit, in a batch."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolmend.execution import Breaker, Retry, ToolCallFailed, ToolContext, Tools, tool_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.telemetry_capture import Captured

QUICK = Retry(max_attempts=3, initial_seconds=0.001, max_seconds=0.002)
NEVER_OPEN = Breaker(failures=10_000, minimum_calls=10_000, window=10_000)

DIRECT = ("sync", "sync, limited", "async", "async, limited")
LIMITED = ("sync, limited", "async, limited")
BATCHED = ("sync in a batch", "async in a batch")
WAYS = DIRECT + BATCHED


class Hang:
    """What a body returns that wants to outlast every time limit of these tests."""

    seconds = 0.4


@dataclass
class Tool:
    """A tool whose runs are counted, and how it is called."""

    way: str
    guarded: Callable[..., Any]
    runs: list[dict[str, Any]] = field(default_factory=list)

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return its value, or raise what it raised; a batch returns the text of its result."""
        if self.way in BATCHED:
            return self.in_batch(json.dumps(kwargs))
        if self.way.startswith("async"):
            return asyncio.run(self.guarded(*args, **kwargs))
        return self.guarded(*args, **kwargs)

    def in_batch(self, arguments: object = "{}", **options: Any) -> Any:
        tools = Tools()
        tools.register(self.guarded)
        [result] = tools.run_sync(asked(("c1", "look", arguments)), **options)
        return result["content"]

    def fails(self, /, *args: Any, **kwargs: Any) -> ToolCallFailed:
        try:
            value = self.call(*args, **kwargs)
        except ToolCallFailed as error:
            return error
        raise AssertionError(f"it returned {value!r}")

    def text(self, /, *args: Any, **kwargs: Any) -> str:
        """Return what the model gets."""
        if self.way in BATCHED:
            return str(self.call(*args, **kwargs))
        return self.fails(*args, **kwargs).text_for_model


def make(way: str, body: Callable[..., Any], **options: Any) -> Tool:
    """Guard a body that gets the number of its run, from 1, and returns, raises, or hangs."""
    runs: list[dict[str, Any]] = []

    def begin(arguments: dict[str, Any]) -> Any:
        runs.append(arguments)
        return body(len(runs))

    # A keyed tool has to take its key; here every tool could.
    def look(context: ToolContext, q: str = "", n: int = 0) -> Any:
        """Look it up."""
        value = begin({"q": q, "n": n})
        if value is Hang:
            time.sleep(Hang.seconds)
        return value

    async def look_async(context: ToolContext, q: str = "", n: int = 0) -> Any:
        """Look it up."""
        value = begin({"q": q, "n": n})
        if value is Hang:
            await asyncio.sleep(Hang.seconds)
        return value

    look_async.__name__ = "look"
    if way in LIMITED:
        options.setdefault("timeout_seconds", 5.0)
    options = {"retry": QUICK, "breaker": NEVER_OPEN, **options}
    function = look_async if way.startswith("async") else look
    return Tool(way, tool_call(**options)(function), runs)


def raising(*errors: Any) -> Callable[[int], Any]:
    """Return a body that raises these one after the other, the last one ever after; None succeeds."""

    def body(run: int) -> Any:
        error = errors[min(run, len(errors)) - 1]
        if error is None:
            return "found"
        raise error if isinstance(error, BaseException) else error()

    return body


def asked(*calls: tuple[str, str, object]) -> dict[str, Any]:
    """Return an assistant message with calls: id, name, arguments."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }


class Refused(Exception):
    """An answer with an HTTP status, as clients raise it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class GraphBubbleUp(Exception):
    """By which LangGraph steers, as its own module names it."""


GraphBubbleUp.__module__ = "langgraph.errors"


def tool_span(telemetry: Captured, tool: str = "look") -> Any:
    [span] = [span for span in telemetry.spans if span.name == f"execute_tool {tool}"]
    return span


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about within five seconds")


def abandoned(telemetry: Captured, tool: str = "look") -> float:
    return telemetry.total("toolmend.tool_calls.abandoned", tool=tool)
