"""The toolbox: the tools, run for real, and what goes wrong with them when the script says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend._demo.answers import Call
    from toolmend._demo.phases import Trouble

TIMEOUT_SECONDS: Final = 0.02
_RESULTS: Final = {
    "find_room": "3 rooms, from 95 EUR",
    "pay_card": "paid",
    "send_mail": "sent",
    "weather": "21 degrees, clear",
}


class ToolFailed(Exception):  # noqa: N818 - what an application would call it
    """A tool raised."""


class WorkerDied(Exception):  # noqa: N818 - no error: nobody is left to see it
    """The process is gone, and everything in its memory with it."""


@dataclass(slots=True)
class Weather:
    """What the script lets happen to one batch, and the signals that go with it.

    Attributes:
        trouble: what happens, None if all is well.
        weak: id of the call that it happens to.
        is_hanging: set when the weak call works and does not end.
        may_end: lets it end.
    """

    trouble: Trouble | None
    weak: str | None
    is_hanging: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)


async def run_batch(
    calls: Sequence[Call], weather: Weather, results: dict[str, str], *, stores_each: bool
) -> None:
    """Run all calls of a batch at once.

    Args:
        calls: what the model asked for.
        weather: what happens to them.
        results: gets the results by call id: each when it is there, or all at the end.
        stores_each: which of the two.

    Raises:
        asyncio.TimeoutError: a tool did not answer in time.
        ToolFailed: a tool raised.
        WorkerDied: the process died.
        asyncio.CancelledError: the run was cancelled.
    """

    async def run_one(call: Call) -> str:
        # Without the time limit an interrupted call could not outlive the user's patience.
        limit = TIMEOUT_SECONDS if weather.trouble == "timeout" else None
        result = await asyncio.wait_for(_run_tool(call, weather), limit)
        if stores_each:
            results[call.id] = result
        return result

    done = await asyncio.gather(*map(run_one, calls))
    if weather.trouble == "crash" and weather.weak in {call.id for call in calls}:
        raise WorkerDied
    results.update(zip((call.id for call in calls), done, strict=True))


async def _run_tool(call: Call, weather: Weather) -> str:
    if call.id == weather.weak:
        if weather.trouble == "error":
            raise ToolFailed(call.name)
        if weather.trouble != "crash":
            weather.is_hanging.set()
            await weather.may_end.wait()
    return _RESULTS[call.name]
