"""Windows: where the part may begin that a repair looks at when a policy asks for the end alone.

A repair may look at more than was asked for, so that no batch is divided; where it began is not told. What can
be told without its code: it began no later than asked for, and not before a place that divides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.property.outline import BEDROCK, GEMINI
from tests.property.reading import Event, events
from tests.property.strategies import Sample
from toolmend.mend import Repair

FEW = 2


def is_narrow(sample: Sample) -> bool:
    """Tell whether the policy asks for less than all of a history."""
    window = None if sample.policy is None else sample.policy.window
    return window is not None and window < len(sample.messages)


def first_of_window(sample: Sample) -> int:
    """Return where the window begins if nothing is divided there."""
    if sample.policy is None or sample.policy.window is None:
        return 0
    return max(len(sample.messages) - sample.policy.window, 0)


def possible_starts(sample: Sample, outcome: Repair) -> list[int]:
    """Return where the part may begin that was looked at: everything before it is untouched."""
    if not is_narrow(sample):
        return [0]
    untouched = 0
    for one, two in zip(sample.messages, outcome.messages, strict=False):
        if one is not two:
            break
        untouched += 1
    last = min(first_of_window(sample), untouched)
    return list(range(_clear_cut(sample, outcome), last + 1))


def _clear_cut(sample: Sample, outcome: Repair) -> int:
    """Return the last place in front of the window where the user speaks and nothing is divided.

    As many messages as leave come into sight.
    """
    gone = sum(edit.operation == "remove" for edit in outcome.edits)
    if gone > FEW or sample.format == BEDROCK:  # there, neighbours of one role are looked at, too
        return 0
    history = events(sample.format, sample.messages)
    for cut in range(first_of_window(sample) - gone, 0, -1):
        before = [event for event in history if event.index < cut]
        behind = [event for event in history if event.index >= cut]
        if _speaks(behind, cut) and not _names(before, sample.format) & _names(
            behind, sample.format
        ):
            return cut
    return 0


def _speaks(history: Sequence[Event], index: int) -> bool:
    own = [event for event in history if event.index == index]
    return bool(own) and all(event.kind == "text" and event.role == "user" for event in own)


def _names(history: Sequence[Event], format: str) -> set[Any]:
    """Return all by which calls and results find each other."""
    pairing = [event for event in history if event.kind in ("call", "result")]
    names: set[Any] = {event.key for event in pairing}
    if format == GEMINI:
        names |= {event.tool for event in pairing}
    return names
