"""The report: what a run comes to, per phase, model, tool, conversation and cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend._demo.cast import MODELS
from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolmend._demo.scores import Scores
    from toolmend._demo.tally import Tally


def patch_rate(firsts: int, requested: int) -> float | None:
    """Return the share of tool calls without a result, from 0 to 1; None if none was requested."""
    return firsts / requested if requested else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """One phase.

    Attributes:
        name: its name.
        requests: requests sent to models.
        mended: those whose history was mended.
        requested: tool calls that models asked for.
        firsts: calls without a result, each once.
        repeats: the same calls, mended again in later requests.
    """

    name: str
    requests: int
    mended: int
    requested: int
    firsts: int
    repeats: int

    @property
    def rate(self) -> float | None:
        """The patch rate."""
        return patch_rate(self.firsts, self.requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model; `refused` counts the requests that it would have refused without toolmend."""

    name: str
    requests: int
    mended: int
    refused: int
    requested: int
    firsts: int
    repeats: int

    @property
    def rate(self) -> float | None:
        """The patch rate."""
        return patch_rate(self.firsts, self.requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One tool; `main_cause` is the most frequent cause, None if there is none."""

    name: str
    requested: int
    firsts: int
    repeats: int
    main_cause: str | None

    @property
    def rate(self) -> float | None:
        """The patch rate."""
        return patch_rate(self.firsts, self.requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """One conversation; `keeps_mends` tells whether its store gets the mended history."""

    name: str
    model: str
    keeps_mends: bool
    requests: int
    refused: int
    firsts: int
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One cause, as telemetry names it; `origins` tells which troubles it came from, and how often."""

    name: str
    firsts: int
    origins: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run comes to. The same seed and number of turns give the same report.

    Attributes:
        seed: the seed.
        turns: how many turns each user took.
        phases: the phases that are over, in their order.
        models: the models, as the cast has them.
        tools: the tools, most calls without a result first.
        threads: the conversations, in the order in which they began.
        causes: the causes, most frequent first.
        troubles: how often each trouble came up.
        refused_all_the_same: requests that the provider refused in spite of toolmend.
    """

    seed: int
    turns: int
    phases: tuple[PhaseRow, ...]
    models: tuple[ModelRow, ...]
    tools: tuple[ToolRow, ...]
    threads: tuple[ThreadRow, ...]
    causes: tuple[CauseRow, ...]
    troubles: tuple[tuple[str, int], ...]
    refused_all_the_same: int

    @property
    def requests(self) -> int:
        """Requests sent to models."""
        return sum(row.requests for row in self.models)

    @property
    def mended(self) -> int:
        """Requests whose history was mended."""
        return sum(row.mended for row in self.models)

    @property
    def refused(self) -> int:
        """Requests that would have been refused without toolmend."""
        return sum(row.refused for row in self.models)

    @property
    def requested(self) -> int:
        """Tool calls that models asked for."""
        return sum(row.requested for row in self.models)

    @property
    def firsts(self) -> int:
        """Tool calls without a result, each once."""
        return sum(row.firsts for row in self.models)

    @property
    def repeats(self) -> int:
        """The same calls, mended again in later requests."""
        return sum(row.repeats for row in self.models)

    @property
    def rate(self) -> float | None:
        """The patch rate over all."""
        return patch_rate(self.firsts, self.requested)


def count_so_far(tally: Tally, name: str, before: PhaseRow | None = None) -> PhaseRow:
    """Return what was counted so far.

    Args:
        tally: the counters.
        name: name of the row.
        before: what was counted before, and is taken off.
    """
    dangling = tally.by(names.TOOL_CALLS_DANGLING, names.RECURRENCE)
    return PhaseRow(
        name=name,
        requests=tally.total(names.MODEL_CALLS) - (before.requests if before else 0),
        mended=tally.total(names.MODEL_CALLS, _REPAIRED) - (before.mended if before else 0),
        requested=tally.total(names.TOOL_CALLS_REQUESTED) - (before.requested if before else 0),
        firsts=dangling.get("first", 0) - (before.firsts if before else 0),
        repeats=dangling.get("repeat", 0) - (before.repeats if before else 0),
    )


def make_report(
    tally: Tally, scores: Scores, *, seed: int, turns: int, phases: tuple[PhaseRow, ...]
) -> Report:
    """Return the report of what was counted so far."""
    return Report(
        seed=seed,
        turns=turns,
        phases=phases,
        models=tuple(_model_row(tally, scores, model.name) for model in MODELS),
        tools=_tool_rows(tally),
        threads=_thread_rows(tally, scores),
        causes=_cause_rows(tally, scores),
        troubles=tuple(scores.troubles.most_common()),
        refused_all_the_same=scores.refused_all_the_same,
    )


_REPAIRED = {names.OUTCOME: "repaired"}
_FIRST = {names.RECURRENCE: "first"}
_REPEAT = {names.RECURRENCE: "repeat"}


def _model_row(tally: Tally, scores: Scores, name: str) -> ModelRow:
    own = {names.MODEL: name}
    return ModelRow(
        name=name,
        requests=tally.total(names.MODEL_CALLS, own),
        mended=tally.total(names.MODEL_CALLS, {**own, **_REPAIRED}),
        refused=sum(
            score.refused for score in scores.threads.values() if score.role.model.name == name
        ),
        requested=tally.total(names.TOOL_CALLS_REQUESTED, own),
        firsts=tally.total(names.TOOL_CALLS_DANGLING, {**own, **_FIRST}),
        repeats=tally.total(names.TOOL_CALLS_DANGLING, {**own, **_REPEAT}),
    )


def _tool_rows(tally: Tally) -> tuple[ToolRow, ...]:
    firsts = tally.by(names.TOOL_CALLS_DANGLING, names.TOOL, _FIRST)
    repeats = tally.by(names.TOOL_CALLS_DANGLING, names.TOOL, _REPEAT)
    rows = (
        ToolRow(
            name=tool,
            requested=requested,
            firsts=firsts.get(tool, 0),
            repeats=repeats.get(tool, 0),
            main_cause=_most(tally.by(names.DANGLING_CAUSES, names.CAUSE, {names.TOOL: tool})),
        )
        for tool, requested in tally.by(names.TOOL_CALLS_REQUESTED, names.TOOL).items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.firsts, row.name)))


def _thread_rows(tally: Tally, scores: Scores) -> tuple[ThreadRow, ...]:
    firsts = tally.by(names.THREADS_DANGLING, names.THREAD)
    return tuple(
        ThreadRow(
            name=thread,
            model=score.role.model.name,
            keeps_mends=score.role.keeps_mends,
            requests=score.requests,
            refused=score.refused,
            # Past the limit of threads telemetry counts them under one name.
            firsts=firsts.get(thread, score.firsts),
            repeats=score.repeats,
        )
        for thread, score in scores.threads.items()
    )


def _cause_rows(tally: Tally, scores: Scores) -> tuple[CauseRow, ...]:
    rows = (
        CauseRow(
            name=cause,
            firsts=firsts,
            origins=tuple(
                (trouble, amount)
                for (of_cause, trouble), amount in sorted(
                    scores.origins.items(), key=lambda item: (-item[1], item[0])
                )
                if of_cause == cause
            ),
        )
        for cause, firsts in tally.by(names.DANGLING_CAUSES, names.CAUSE).items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.firsts, row.name)))


def _most(sums: Mapping[str, int]) -> str | None:
    return max(sums, key=lambda name: sums[name], default=None)
