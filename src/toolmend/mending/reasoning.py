"""Reasoning: what of it may not stay, because what it needs behind it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.mending.draft import Draft
from toolmend.mending.transcript import Call, Content, ContentKind, Part, Result

if TYPE_CHECKING:
    from collections.abc import Collection


def strip_reasoning(draft: Draft, moving: Collection[int] = ()) -> None:
    """Take out reasoning that its format refuses where it stands.

    Args:
        draft: all decisions.
        moving: numbers of results that move to another place.
    """
    if draft.rules.reasoning_needs_successor:
        _strip_ends(draft, moving)
    if draft.rules.reasoning_leads and not draft.keeps_server_state:
        _strip_leaders(draft)


def _strip_ends(draft: Draft, moving: Collection[int]) -> None:
    """Take out reasoning that ends an assistant turn which is not the last."""
    for turn in draft.turns():
        is_answered = any(
            call.number in draft.made or draft.result_of(call) is not None for call in turn.calls
        )
        if turn.successor is None and not turn.followers and not is_answered:
            continue
        for part in _trailing_reasoning(draft, turn.messages, moving):
            _remove(draft, part)


def _strip_leaders(draft: Draft) -> None:
    """Take out reasoning that leads to nothing any more.

    It leads to all calls behind it, up to the next reasoning or to whatever is no call: it leaves with
    the last of them. Reasoning without a call leads to what stands right behind it.
    """
    leaders: list[Content] = []
    had_calls = has_calls = False

    def settle(successor: Part | None) -> None:
        nonlocal had_calls, has_calls
        leads = has_calls or (
            not had_calls and isinstance(successor, Content) and successor.kind is ContentKind.LED
        )
        if not leads:
            for part in leaders:
                _remove(draft, part)
        leaders.clear()
        had_calls = has_calls = False

    for message in draft.transcript.messages:
        for part in message.parts or (None,):
            if isinstance(part, Content) and part.kind is ContentKind.REASONING:
                if had_calls:
                    settle(None)
                if not draft.is_gone(part):
                    leaders.append(part)
            elif isinstance(part, Call):
                had_calls = True
                has_calls = has_calls or part.number not in draft.gone_calls
            elif isinstance(part, Result) and _leaves(draft, part):
                continue
            elif leaders:
                settle(part)
            else:
                had_calls = has_calls = False
    settle(None)


def _leaves(draft: Draft, result: Result) -> bool:
    """Tell whether a result goes, or moves from ahead of its call to a place behind it."""
    owner = draft.match.owners.get(result.number)
    is_ahead = owner is not None and draft.transcript.calls[owner].message > result.message
    return is_ahead or draft.is_gone(result)


def _remove(draft: Draft, part: Content) -> None:
    draft.gone_content.add((part.message, part.slot))
    draft.find("orphan_reasoning", "removed", index=part.message)


def _trailing_reasoning(
    draft: Draft, messages: list[int], moving: Collection[int]
) -> list[Content]:
    found: list[Content] = []
    for index in reversed(messages):
        for part in reversed(draft.transcript.messages[index].parts):
            if draft.is_gone(part) or _moves_away(draft, part, moving):
                continue
            if not isinstance(part, Content) or part.kind is not ContentKind.REASONING:
                return found
            found.append(part)
    return found


def _moves_away(draft: Draft, part: Part, moving: Collection[int]) -> bool:
    """Tell whether a part of an assistant message is a result that belongs somewhere else."""
    if not isinstance(part, Result):
        return False
    return part.number in moving or (not part.server and part.number in draft.match.owners)
