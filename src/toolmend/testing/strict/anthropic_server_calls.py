"""Calls that the service runs itself, and their results in assistant turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.testing.strict import anthropic_problems
from toolmend.testing.strict.anthropic_turns import SERVER_CALLS, Block, Turn
from toolmend.testing.strict.plain import as_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


def judge_server_calls(turns: Sequence[Turn], allowance: Allowance) -> list[Problem]:
    """Return the server calls that stay without result, and the server results without call.

    A server call is answered after it in its own assistant turn (page CL-ST). It may be open when
    it is deferred: beside client calls whose next turn holds nothing but their results, over any
    number of such turns (vellum-ai/vellum-assistant#40137); and at the very end of the history
    (`pause_turn`).
    """
    ledger = _Ledger(allowance)
    for place, turn in enumerate(turns):
        following = turns[place + 1] if place + 1 < len(turns) else None
        if turn.role == "assistant":
            ledger.enter_assistant_turn(turn, following)
        elif turn.role == "user":
            after_assistant = place > 0 and turns[place - 1].role == "assistant"
            ledger.enter_user_turn(turn, follows_assistant=after_assistant)
    return ledger.found


class _Ledger:
    """The server calls that are still open, while the turns go by."""

    def __init__(self, allowance: Allowance) -> None:
        self.found: list[Problem] = []
        self._allowance = allowance
        self._count = 0
        self._open: dict[int, Block] = {}
        # The number of the newest call of each id that can still be answered.
        self._newest: dict[str, int] = {}

    def enter_assistant_turn(self, turn: Turn, following: Turn | None) -> None:
        first_of_turn = self._count
        ids_of_turn: set[str] = set()
        for block in turn.blocks:
            if block.kind in SERVER_CALLS:
                self._call(block, ids_of_turn)
            elif block.is_server_result:
                self._result(block)
        if turn.has_client_calls and (following is None or following.is_results_only):
            return
        paused_from = first_of_turn if following is None else self._count
        self._close(paused_from)

    def enter_user_turn(self, turn: Turn, *, follows_assistant: bool) -> None:
        for block in turn.blocks:
            if block.is_server_result:
                self._stray_result(block)
        if not follows_assistant:
            self._close(self._count)

    def _call(self, block: Block, ids_of_turn: set[str]) -> None:
        call_id = as_id(block.fields.get("id"))
        if call_id is None:
            return
        if call_id in ids_of_turn:
            self.found.append(
                anthropic_problems.duplicate_id(block.index, block.position, block.kind, call_id)
            )
            return
        ids_of_turn.add(call_id)
        self._open[self._count] = block
        self._newest[call_id] = self._count
        self._count += 1

    def _result(self, block: Block) -> None:
        call_id = as_id(block.fields.get("tool_use_id"))
        if call_id is None or call_id not in self._newest:
            self._stray_result(block)
        elif self._open.pop(self._newest[call_id], None) is None:
            self.found.append(
                anthropic_problems.duplicate_result(
                    block.index, block.position, block.kind, call_id
                )
            )

    def _stray_result(self, block: Block) -> None:
        call_id = as_id(block.fields.get("tool_use_id"))
        if call_id is None:
            field = f"{block.kind}.tool_use_id"
            self.found.append(anthropic_problems.missing_id(block.index, block.position, field))
        elif not self._allowance.orphans:
            self.found.append(
                anthropic_problems.server_orphan(block.index, block.position, block.kind, call_id)
            )

    def _close(self, paused_from: int) -> None:
        """End the time in which calls can be answered; those from this number on are paused."""
        for number, block in self._open.items():
            if number < paused_from:
                self.found.append(_dangling(block))
        self._open.clear()
        self._newest.clear()


def _dangling(block: Block) -> Problem:
    name = block.fields.get("name")
    name = name if isinstance(name, str) else ""
    if block.kind == "mcp_tool_use":
        result_kind = "mcp_tool_result"
    elif name.startswith("tool_search"):
        result_kind = "tool_search_tool_result"
    else:
        result_kind = f"{name}_tool_result"
    call_id = str(block.fields["id"])
    return anthropic_problems.server_dangling(block.index, name, result_kind, call_id)
