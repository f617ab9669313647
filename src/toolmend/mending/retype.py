"""Retype: results of another family than their call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolmend.mending.draft import Draft
    from toolmend.mending.transcript import Call


def drop_unanswerable(draft: Draft) -> None:
    """Take out calls whose result is of another family and cannot be turned into one of their own."""
    for call, _ in _wrong(draft):
        if not call.answerable:
            draft.remove_call(call)
            draft.find("unanswerable_call", "dropped", call=call, cause="unknown")


def find_wrong_types(draft: Draft) -> dict[int, Call]:
    """Return the results that have to be written as another family: number -> their call."""
    retyped: dict[int, Call] = {}
    for call, number in _wrong(draft):
        retyped[number] = call
        draft.find("wrong_result_type", "retyped", call=call)
    return retyped


def _wrong(draft: Draft) -> list[tuple[Call, int]]:
    found: list[tuple[Call, int]] = []
    for call in draft.transcript.calls:
        if call.family and call.number not in draft.gone_calls:
            result = draft.result_of(call)
            if result is not None and result.family != call.family:
                found.append((call, result.number))
    return found
