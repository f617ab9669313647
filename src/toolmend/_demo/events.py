"""Events: what a screen is told while the demo runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolmend._demo.phases import Phase, Trouble
    from toolmend._demo.report import PhaseRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A fault that was mended for the first time, in a request that was then accepted.

    Attributes:
        phase: name of the phase.
        thread: id of the conversation.
        model: name of the model.
        tool: name of the tool.
        trouble: what went wrong.
        cause: what telemetry calls it; None where no call lacked a result.
        action: what was done, such as `patched` or `moved`.
    """

    phase: str
    thread: str
    model: str
    tool: str
    trouble: Trouble | None
    cause: str | None
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that the provider refused all the same."""

    phase: str
    thread: str
    model: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegan:
    """A phase began."""

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded:
    """A phase is over.

    Attributes:
        row: its numbers.
    """

    row: PhaseRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """All users have taken a turn.

    Attributes:
        turn: number of the turn, from 0.
        turns: how many there are.
        requested: tool calls that were counted in it.
        dangling: those of them without a result.
    """

    turn: int
    turns: int
    requested: int
    dangling: int


Event = Mended | Refused | PhaseBegan | PhaseEnded | TurnEnded
Listener = Callable[[Event], None]
