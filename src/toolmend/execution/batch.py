"""Batch: all calls of one assistant message, run at the same time, each with exactly one result."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from toolmend._call_ends import CallEnd, call_ends
from toolmend.execution import texts
from toolmend.execution.call import thread_of_call
from toolmend.execution.context import CallFrame, current_frame
from toolmend.execution.drivers import GRACE_SECONDS, drive_async
from toolmend.execution.ended import Ended
from toolmend.execution.failures import ToolCallFailed
from toolmend.execution.steps import conduct
from toolmend.formats.answers import answer_messages, answer_part
from toolmend.mending.texts import CANCELLED_MIDWAY
from toolmend.telemetry import names
from toolmend.telemetry.tool_calls import ToolCallReport, tool_call_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolmend.execution.guard import Guard
    from toolmend.formats.answers import AskedCall

_MAX_NAME_CHARS: Final = 100
_SETTLE_SECONDS: Final = 2 * GRACE_SECONDS
_given_up: Final[set[asyncio.Task[None]]] = set()
"""Tasks that did not end when they were cancelled: kept, so that they are not collected while they run."""


class Batch:
    """The calls of one message.

    Args:
        format: name of the wire format.
        calls: the calls, in order.
        guards: the tools, by name.
        owners: the instance or class of those that are methods, likewise.
        frame: what surrounds every call.
        max_result_chars: longer results are cut.
    """

    def __init__(
        self,
        format: str,
        *,
        calls: Sequence[AskedCall],
        guards: Mapping[str, Guard],
        owners: Mapping[str, tuple[Any, ...]],
        frame: CallFrame,
        max_result_chars: int,
    ) -> None:
        self._format = format
        self._calls = calls
        self._guards = guards
        self._owners = owners
        self._frame = frame
        self._max_result_chars = max_result_chars
        self._ends: list[Ended | None] = [None] * len(calls)
        self._first = _first_of_each(calls)

    async def run(self) -> None:
        """Run every call; when this is cancelled or a call is interrupted, end the others, too."""
        tasks = [
            asyncio.create_task(self._run_one(number, call))
            for number, call in enumerate(self._calls)
            if self._first[number] == number
        ]
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        except GeneratorExit:  # closed by the collector: nothing can be awaited any more
            with suppress(RuntimeError):  # the loop is closed
                for task in tasks:
                    task.cancel()
            raise
        except BaseException:
            await _end(tasks)
            raise
        await _end(tasks)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()  # raises what frameworks steer by; the others were cancelled for it

    def results(self) -> list[object]:
        """Return the results as messages, in the order of the calls; complete at any time."""
        return answer_messages(
            self._format,
            [
                self._part(call, self._ends[n])
                for n, call in zip(self._first, self._calls, strict=True)
            ],
        )

    async def _run_one(self, number: int, call: AskedCall) -> None:
        guard = self._guards.get(call.name)
        if guard is None:
            self._ends[number] = self._refuse(call)
            return
        frame = replace(self._frame, call_id=call.id, on_interrupted=partial(self._take, number))
        current_frame.set(frame)  # of this task alone
        given = partial(guard.arguments.read, call.arguments, is_text=call.is_text)
        steps = conduct(guard, given, self._owners[call.name])
        self._ends[number] = await drive_async(steps, is_apart=True)

    def _take(self, number: int, error: ToolCallFailed) -> None:
        self._ends[number] = Ended(error=error)

    def _refuse(self, call: AskedCall) -> Ended:
        thread = thread_of_call()
        facts = tool_call_facts(tool=names.OTHER, call_id=call.id, thread=thread)
        report = ToolCallReport(facts)
        facts.outcome, facts.error_type = "failed", "unknown_tool"
        if call.id is not None:
            call_ends.note(thread, call.id, CallEnd(call.name, "tool_error", report.span_context))
        report.end()
        # What the model wrote may be of any length, and comparing takes its square.
        written = call.name[:_MAX_NAME_CHARS]
        known = get_close_matches(written, self._guards, n=len(self._guards) or 1, cutoff=0.0)
        return Ended(
            error=ToolCallFailed(
                texts.unknown_tool(call.name, known),
                tool_name=call.name,
                error_type="unknown_tool",
                call_id=call.id,
            )
        )

    def _part(self, call: AskedCall, ended: Ended | None) -> object:
        if ended is None:  # cancelled before it began, or it does not end
            text, is_error = CANCELLED_MIDWAY["en"], True
        else:
            text, is_error = ended.text(self._max_result_chars), ended.error is not None
        return answer_part(
            self._format,
            call_id=call.id,
            tool_name=call.name,
            text=text,
            is_error=is_error,
            family=call.family,
            like=call.part,
        )


def _first_of_each(calls: Sequence[AskedCall]) -> list[int]:
    """Return for each call the number of the first that is the same: one sent twice is run once."""
    return [
        next(
            first
            for first, other in enumerate(calls)
            if first == number
            or (call.id is not None and call.id == other.id and _asks_same(call, other))
        )
        for number, call in enumerate(calls)
    ]


def _asks_same(call: AskedCall, other: AskedCall) -> bool:
    return call.name == other.name and call.arguments == other.arguments


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that still run, and give them a moment."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    try:
        if running:
            await asyncio.wait(running, timeout=_SETTLE_SECONDS)
    finally:
        for task in tasks:
            if not task.done():
                _given_up.add(task)
                task.add_done_callback(_given_up.discard)
            elif not task.cancelled():
                task.exception()  # one of them is raised, and nobody looks at the others
