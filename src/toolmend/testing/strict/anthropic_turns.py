"""Turns of an Anthropic history: neighbouring messages of one role, joined as the API does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict.plain import as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CLIENT_CALL = "tool_use"
CLIENT_RESULT = "tool_result"
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
THINKING = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One content block and its place; a string counts as a text block, if it is not blank.

    Attributes:
        index: Index of its message.
        position: Index in the content of its message.
        kind: Its `type`; empty when it has none.
        fields: The block as a mapping; empty when it is no object.
    """

    index: int
    position: int
    kind: str
    fields: Mapping[str, object]

    @property
    def is_server_result(self) -> bool:
        """Whether the block answers a call that the service ran."""
        return self.kind.endswith("_tool_result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Neighbouring messages of one role; an unknown role makes a turn of its own kind."""

    role: object
    blocks: tuple[Block, ...]

    @property
    def has_client_calls(self) -> bool:
        """Whether the turn holds a call that the client runs."""
        return any(block.kind == CLIENT_CALL for block in self.blocks)

    @property
    def is_results_only(self) -> bool:
        """Whether this is a user turn of client results and nothing else."""
        return (
            self.role == "user"
            and bool(self.blocks)
            and all(block.kind == CLIENT_RESULT for block in self.blocks)
        )


def read_turns(messages: Sequence[Mapping[str, object]]) -> list[Turn]:
    """Return the turns of a history, in order."""
    turns: list[Turn] = []
    role: object = None
    blocks: list[Block] = []
    for index, message in enumerate(messages):
        if index and message.get("role") != role:
            turns.append(Turn(role=role, blocks=tuple(blocks)))
            blocks = []
        role = message.get("role")
        blocks.extend(_blocks_of(index, message.get("content")))
    if messages:
        turns.append(Turn(role=role, blocks=tuple(blocks)))
    return turns


def _blocks_of(index: int, content: object) -> Iterator[Block]:
    if isinstance(content, str) and content.strip():
        fields = {"type": "text", "text": content}
        yield Block(index=index, position=0, kind="text", fields=fields)
    for position, item in enumerate(as_items(content) or ()):
        fields_or_none = as_mapping(item)
        kind = (fields_or_none or {}).get("type")
        yield Block(
            index=index,
            position=position,
            kind=kind if isinstance(kind, str) else "",
            fields=fields_or_none or {},
        )
