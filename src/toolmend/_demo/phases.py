"""Phases: how the runtime of the tools is doing, from healthy to broken and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Trouble = Literal["timeout", "error", "cancelled", "crash", "interrupt", "cut off", "late"]
"""What can happen to the tool calls of one assistant turn."""

TROUBLES: Final[Mapping[str, str]] = {
    "timeout": "a tool did not answer in time",
    "error": "a tool raised, and nobody caught it",
    "cancelled": "the run was cancelled while a tool worked",
    "crash": "the process died before it stored the results",
    "interrupt": "the user typed something else while a tool worked",
    "cut off": "the stream broke inside the arguments of a call",
    "late": "a result came in behind the next message of the user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the run.

    Attributes:
        name: one word.
        story: what happens in it, in one line.
        share: the part of all turns that goes wrong.
        troubles: what goes wrong, one after the other.
    """

    name: str
    story: str
    share: float
    troubles: tuple[Trouble, ...]


PHASES: Final = (
    Phase(
        name="healthy",
        story="the tools answer; now and then one is slow",
        share=0.05,
        troubles=("timeout",),
    ),
    Phase(
        name="flaky",
        story="timeouts, exceptions, results that come in late",
        share=0.3,
        troubles=("timeout", "error", "late", "interrupt"),
    ),
    Phase(
        name="broken",
        story="crashes, cancelled runs, cut streams, users who lose patience",
        share=0.8,
        troubles=("crash", "cut off", "timeout", "cancelled", "interrupt", "cut off", "error"),
    ),
    Phase(
        name="recovery",
        story="the tools work again; stores that nobody mended keep their holes",
        share=0.1,
        troubles=("timeout", "interrupt"),
    ),
)


def phase_of(turn: int, turns: int) -> int:
    """Return the index of the phase that a turn belongs to; all phases are equally long.

    Args:
        turn: number of the turn, from 0.
        turns: how many there are.
    """
    return min(turn * len(PHASES) // turns, len(PHASES) - 1)
