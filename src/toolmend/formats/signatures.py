"""Signatures: which messages stand in a turn of the model that holds signed reasoning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.formats.fields import get

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def signed(messages: Sequence[object], is_reasoning: Callable[[object], bool]) -> set[int]:
    """Return the indices of assistant messages whose turn holds signed reasoning.

    Args:
        messages: the history.
        is_reasoning: tells a block of reasoning from any other.
    """
    found: set[int] = set()
    turn: list[int] = []
    has_reasoning = False
    for index, message in enumerate(messages):
        if get(message, "role") != "assistant":
            turn, has_reasoning = [], False
            continue
        turn.append(index)
        content = get(message, "content")
        if isinstance(content, list | tuple):
            has_reasoning = has_reasoning or any(map(is_reasoning, content))
        if has_reasoning:
            found.update(turn)
            turn = []
    return found
