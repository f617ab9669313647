"""The play: all conversations, turn by turn, through all phases."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from toolmend._demo.agent import Agent
from toolmend._demo.cast import ROLES
from toolmend._demo.clients import open_clients
from toolmend._demo.events import PhaseBegan, PhaseEnded, TurnEnded
from toolmend._demo.phases import PHASES, phase_of
from toolmend._demo.report import PhaseRow, Report, count_so_far, make_report
from toolmend._demo.scores import Scores, ThreadScore
from toolmend._demo.tally import Tally
from toolmend.telemetry.signals import using
from toolmend.testing import StrictProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import ModuleType

    from opentelemetry import metrics, trace

    from toolmend._demo.events import Event, Listener
    from toolmend._demo.script import Script

_TURNS_PER_SEASON: Final = 16
"""After so many turns all users begin a new conversation, so that no history grows without end."""


class Play:
    """One run of the demo.

    Args:
        script: what happens.
        sdks: the SDKs to use, as `installed_sdks` returns them.
        seconds: how long to take; 0 does not wait at all. Nothing but the pace depends on it.
        tracer_provider: where spans go.
        meter_provider: where metrics go.
        listener: told what happens.
    """

    def __init__(
        self,
        script: Script,
        *,
        sdks: dict[str, ModuleType],
        seconds: float,
        tracer_provider: trace.TracerProvider,
        meter_provider: metrics.MeterProvider,
        listener: Listener,
    ) -> None:
        self._script = script
        self._sdks = sdks
        self._seconds_per_turn = seconds / script.turns
        self._tracer_provider = tracer_provider
        self._tell = listener
        self._scores = Scores()
        self._phases: list[PhaseRow] = []
        self._began = 0.0
        self.tally = Tally(meter_provider)

    def report(self) -> Report:
        """Return the report of what happened so far."""
        return make_report(
            self.tally,
            self._scores,
            seed=self._script.seed,
            turns=self._script.turns,
            phases=tuple(self._phases),
        )

    def run(self) -> None:
        """Play from the first turn to the last."""
        with using(tracer_provider=self._tracer_provider, meter_provider=self.tally):
            asyncio.run(self._run())

    async def _run(self) -> None:
        self._began = time.monotonic()
        before_phase = count_so_far(self.tally, "start")
        current: int | None = None
        for season, first in enumerate(range(0, self._script.turns, _TURNS_PER_SEASON)):
            async with self._cast(season) as agents:
                for turn in range(first, min(first + _TURNS_PER_SEASON, self._script.turns)):
                    phase = phase_of(turn, self._script.turns)
                    if phase != current:
                        before_phase = self._end_phase(current, before_phase)
                        self._tell(PhaseBegan(phase=PHASES[phase]))
                        current = phase
                    await self._play_turn(turn, PHASES[phase].name, agents)
        self._end_phase(current, before_phase)

    @asynccontextmanager
    async def _cast(self, season: int) -> AsyncIterator[list[Agent]]:
        """Give an agent per role, each with a new conversation."""
        with StrictProvider(self._script.reply) as provider:
            clients = open_clients(provider, self._sdks)
            agents = []
            for number, role in enumerate(ROLES):
                thread = role.conversation(season)
                score = self._scores.threads[thread] = ThreadScore(role=role)
                client = clients[role.model.wire]
                agents.append(
                    Agent(
                        number=number,
                        role=role,
                        thread=thread,
                        client=client,
                        scores=self._scores,
                        thread_score=score,
                    )
                )
            try:
                yield agents
            finally:
                for client in clients.values():
                    await client.close()

    async def _play_turn(self, turn: int, phase: str, agents: Sequence[Agent]) -> None:
        """Let everyone take a turn at the same time, and tell it in the order of the cast."""
        before = count_so_far(self.tally, phase)
        turns = [
            asyncio.ensure_future(self._take_turn(number, agent, turn, phase))
            for number, agent in enumerate(agents)
        ]
        try:
            for taken in turns:
                for event in await taken:
                    self._tell(event)
        finally:
            for taken in turns:
                taken.cancel()
            await asyncio.gather(*turns, return_exceptions=True)
        row = count_so_far(self.tally, phase, before)
        self._tell(
            TurnEnded(
                turn=turn,
                turns=self._script.turns,
                requested=row.requested,
                dangling=row.firsts,
            )
        )

    async def _take_turn(self, number: int, agent: Agent, turn: int, phase: str) -> list[Event]:
        due = self._began + self._seconds_per_turn * (turn + number / len(ROLES))
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        return await agent.take_turn(turn, self._script.plan(number, turn), phase)

    def _end_phase(self, phase: int | None, before: PhaseRow) -> PhaseRow:
        """Note the numbers of a phase, and return all numbers so far."""
        so_far = count_so_far(self.tally, "so far")
        if phase is not None:
            row = count_so_far(self.tally, PHASES[phase].name, before)
            self._phases.append(row)
            self._tell(PhaseEnded(row=row))
        return so_far
