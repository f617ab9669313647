"""An agent: one conversation, its stored history, and the loop that asks the model and runs the tools."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

import toolmend
from toolmend._demo.answers import Answer, collect_chat
from toolmend._demo.events import Event, Mended, Refused
from toolmend._demo.script import place
from toolmend._demo.shapes import result_messages, user_message
from toolmend._demo.tally import listening
from toolmend._demo.toolbox import Weather, WorkerDied, run_batch
from toolmend.testing import problems

if TYPE_CHECKING:
    from toolmend._demo.cast import Role
    from toolmend._demo.clients import Client
    from toolmend._demo.phases import Trouble
    from toolmend._demo.scores import Scores, ThreadScore
    from toolmend._demo.script import TurnPlan

_BAD_REQUEST: Final = 400
_SHOWN: Final = ("dangling_call", "misplaced_result")


class StreamBrokeError(Exception):
    """The connection broke in the middle of an answer."""


class _TurnLostError(Exception):
    """The provider refused the request."""


_ENDINGS: Final = (
    toolmend.ToolCallFailed,
    StreamBrokeError,
    WorkerDied,
    _TurnLostError,
)
"""How a run may end other than well; the application logs it and waits for the next message."""


class Agent:
    """Serves one conversation.

    Args:
        number: index of the role in the cast.
        role: who is served, and how.
        thread: id of the conversation.
        client: asks the model.
        scores: the scores of the run.
        thread_score: the score of the conversation.
    """

    def __init__(
        self,
        *,
        number: int,
        role: Role,
        thread: str,
        client: Client,
        scores: Scores,
        thread_score: ThreadScore,
    ) -> None:
        self._number = number
        self._role = role
        self._thread = thread
        self._client = client
        self._scores = scores
        self._score = thread_score
        self._history: list[object] = []
        self._troubles: dict[str, Trouble] = {}
        self._tools: dict[str, str] = {}
        self._shown: set[tuple[str, str | None]] = set()
        self._repair: toolmend.Repair | None = None
        self._events: list[Event] = []
        # The whole of toolmend, in two lines of the application.
        mended = toolmend.model_call(
            provider=role.model.provider, thread_label="raw", on_repair=self._take_repair
        )
        self._ask = mended(client.ask)
        self._open_stream = mended(client.open_stream)

    def _take_repair(self, repair: toolmend.Repair) -> None:
        self._repair = repair
        if self._role.keeps_mends:
            self._history[:] = repair.messages

    async def take_turn(self, turn: int, plan: TurnPlan, phase: str) -> list[Event]:
        """Serve one message of the user, whatever becomes of it.

        Returns:
            What there is to show.
        """
        self._events = []
        last = plan.batches[-1]
        weather = Weather(last.trouble, last.weak)
        if last.trouble is not None:
            self._scores.troubles[last.trouble] += 1
        self._history.append(user_message(plan.says))
        steps = _Steps(turn, plan, phase, weather)
        match last.trouble:
            case "cancelled":
                await self._stop_midway(steps)
            case "interrupt":
                await self._stop_midway(steps)
                self._history.append(user_message(plan.impatience))
                await self._finish(asyncio.ensure_future(self._run(steps)))
            case "late":
                await self._stop_midway(steps, how="talk over it")
            case "crash":
                await self._finish(asyncio.ensure_future(self._run(steps)))
                # A new worker takes over, with what is stored.
                await self._finish(asyncio.ensure_future(self._run(steps)))
            case _:
                await self._finish(asyncio.ensure_future(self._run(steps)))
        return self._events

    async def _stop_midway(
        self, steps: _Steps, how: Literal["cancel", "talk over it"] = "cancel"
    ) -> None:
        run = asyncio.ensure_future(self._run(steps))
        hanging = asyncio.ensure_future(steps.weather.is_hanging.wait())
        try:
            await asyncio.wait({run, hanging}, return_when=asyncio.FIRST_COMPLETED)
            if how == "cancel":
                run.cancel()
            else:
                self._history.append(user_message(steps.plan.impatience))
                steps.weather.may_end.set()
        finally:
            hanging.cancel()
        await self._finish(run)

    async def _finish(self, run: asyncio.Future[None]) -> None:
        try:
            await asyncio.wait({run})
        finally:
            run.cancel()
        error = None if run.cancelled() else run.exception()
        if error is not None and not isinstance(error, _ENDINGS):
            raise error

    async def _run(self, steps: _Steps) -> None:
        """Ask the model and run what it asks for, until it has nothing more to ask for."""
        while True:
            answer = await self._ask_model(steps)
            steps.number += 1
            self._history.append(answer.message)
            if steps.weather.weak in {call.id for call in answer.calls} and steps.trouble:
                self._troubles.update((call.id, steps.trouble) for call in answer.calls)
            self._tools.update((call.id, call.name) for call in answer.calls)
            if answer.is_cut:
                raise StreamBrokeError
            if not answer.calls:
                return
            await self._run_tools(steps, answer)

    async def _run_tools(self, steps: _Steps, answer: Answer) -> None:
        results: dict[str, str] = {}
        try:
            await run_batch(
                answer.calls,
                steps.weather,
                results,
                thread=self._thread,
                stores_each=self._role.stores_each,
            )
        except WorkerDied:
            results.clear()
            raise
        finally:
            ordered = {call.id: results[call.id] for call in answer.calls if call.id in results}
            self._history.extend(result_messages(self._role.model.wire, ordered))

    async def _ask_model(self, steps: _Steps) -> Answer:
        model = self._role.model
        is_legal = not problems(self._history, format=model.wire)
        at = place(self._number, steps.turn, steps.number)
        self._repair = None
        with listening() as heard, toolmend.thread(self._thread):
            try:
                if self._role.is_streaming:
                    stream = await self._open_stream(self._history, model=model.name, place=at)
                    cut_at = steps.weather.weak if steps.trouble == "cut off" else None
                    answer = await collect_chat(stream, cut_at)
                else:
                    answer = self._client.read(
                        await self._ask(self._history, model=model.name, place=at)
                    )
            except Exception as error:
                if getattr(error, "status_code", None) != _BAD_REQUEST:
                    raise
                self._note_refusal(steps, error)
                raise _TurnLostError from error
            finally:
                self._score.add(heard, is_legal=is_legal)
        self._note_mends(steps)
        return answer

    def _note_refusal(self, steps: _Steps, error: Exception) -> None:
        self._scores.refused_all_the_same += 1
        self._events.append(
            Refused(
                phase=steps.phase,
                thread=self._thread,
                model=self._role.model.name,
                message=str(error),
            )
        )

    def _note_mends(self, steps: _Steps) -> None:
        for finding in self._repair.findings if self._repair is not None else ():
            sight = (finding.kind, finding.call_id)
            if finding.kind not in _SHOWN or finding.action == "left" or sight in self._shown:
                continue
            self._shown.add(sight)
            call_id = finding.call_id or ""
            trouble = self._troubles.get(call_id)
            if finding.kind == "dangling_call":
                self._scores.origins[finding.cause or "unknown", trouble or "unknown"] += 1
            self._events.append(
                Mended(
                    phase=steps.phase,
                    thread=self._thread,
                    model=self._role.model.name,
                    tool=self._tools.get(call_id, "unknown"),
                    trouble=trouble,
                    cause=finding.cause,
                    action=finding.action,
                )
            )


class _Steps:
    """Where a turn is; the next run of it goes on from there."""

    def __init__(self, turn: int, plan: TurnPlan, phase: str, weather: Weather) -> None:
        self.turn = turn
        self.plan = plan
        self.phase = phase
        self.weather = weather
        self.number = 0

    @property
    def trouble(self) -> Trouble | None:
        """What goes wrong in this turn."""
        return self.weather.trouble
