"""The toolbox: guarded tools, run for real, and what goes wrong with them when the script says so."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import toolmend
from toolmend import Breaker, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolmend._demo.answers import Call
    from toolmend._demo.phases import Trouble

TIMEOUT_SECONDS: Final = 0.02
_RETRY: Final = Retry(max_attempts=2, initial_seconds=0.001, max_seconds=0.001)
_BREAKER: Final = Breaker(failures=1_000, minimum_calls=1_000, window=1_000)
"""Never opens: how long it stays open is a matter of the clock, and a run follows its seed alone."""


class CardRefusedError(Exception):
    """What the payment service raises."""


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


_at_hand: Final[ContextVar[tuple[Weather, str]]] = ContextVar("toolmend_demo_weather")
"""What happens to the call that runs, and its id."""


async def _work() -> None:
    """Take as long as the script says, or fail as it says."""
    weather, call_id = _at_hand.get()
    if call_id != weather.weak:
        return
    if weather.trouble == "error":
        raise CardRefusedError
    if weather.trouble != "crash":
        weather.is_hanging.set()
        await weather.may_end.wait()


@toolmend.tool_call(effect="read", retry=_RETRY, breaker=_BREAKER)
async def find_room(city: str) -> str:  # noqa: ARG001 - a tool of a demo
    """Find a free hotel room in a city."""
    await _work()
    return "3 rooms, from 95 EUR"


@toolmend.tool_call(retry=_RETRY, breaker=_BREAKER)
async def pay_card(amount_eur: int) -> str:  # noqa: ARG001 - a tool of a demo
    """Charge the card of the customer."""
    await _work()
    return "paid"


@toolmend.tool_call(retry=_RETRY, breaker=_BREAKER)
async def send_mail(to: str, subject: str) -> str:  # noqa: ARG001 - a tool of a demo
    """Send an email."""
    await _work()
    return "sent"


@toolmend.tool_call(effect="read", retry=_RETRY, breaker=_BREAKER)
async def weather(city: str) -> str:  # noqa: ARG001 - a tool of a demo
    """Look up the weather of a city."""
    await _work()
    return "21 degrees, clear"


_TOOLS: Final[Mapping[str, Callable[..., Any]]] = {
    "find_room": find_room,
    "pay_card": pay_card,
    "send_mail": send_mail,
    "weather": weather,
}


async def run_batch(
    calls: Sequence[Call],
    weather: Weather,
    results: dict[str, str],
    *,
    thread: str,
    stores_each: bool,
) -> None:
    """Run all calls of a batch at once, as applications do that forget about failures.

    Args:
        calls: what the model asked for.
        weather: what happens to them.
        results: gets the results by call id: each when it is there, or all at the end.
        thread: id of the conversation.
        stores_each: which of the two.

    Raises:
        toolmend.ToolCallFailed: a tool raised, or did not answer in time.
        WorkerDied: the process died.
        asyncio.CancelledError: the run was cancelled.
    """
    is_dying = weather.trouble == "crash" and weather.weak in {call.id for call in calls}

    async def run_one(call: Call) -> str:
        # Those beside it answer at once, which on a busy machine may well take longer than the limit.
        is_late = weather.trouble == "timeout" and call.id == weather.weak
        limit = TIMEOUT_SECONDS if is_late else None
        _at_hand.set((weather, call.id))  # of this task alone
        with toolmend.tool_context(
            # What a process remembers of its calls dies with it.
            call_id=None if is_dying else call.id,
            thread=thread,
            deadline_seconds=limit,
        ):
            result: str = await _TOOLS[call.name](**json.loads(call.arguments))
        if stores_each:
            results[call.id] = result
        return result

    done = await asyncio.gather(*map(run_one, calls))
    if is_dying:
        raise WorkerDied
    results.update(zip((call.id for call in calls), done, strict=True))
