"""Messages and blocks of a Bedrock Converse history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict.plain import as_id, as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROLES = ("user", "assistant")
_SERVER_CALL = "server_tool_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block and its place.

    Attributes:
        position: Index in the content of its message.
        fields: The block as a mapping; None when it is no object.
        call: Its `toolUse`; None when it has none that is an object.
        result: Its `toolResult`; the same.
    """

    position: int
    fields: Mapping[str, object] | None
    call: Mapping[str, object] | None
    result: Mapping[str, object] | None

    @property
    def is_server_call(self) -> bool:
        """Whether the service runs the call itself; its result stands in the same message."""
        return self.call is not None and self.call.get("type") == _SERVER_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message and its place.

    Attributes:
        index: Index in the list.
        role: Its role.
        content: Its content.
        blocks: The blocks of its content; None when that is no list.
        calls: The calls of an assistant message that the client answers.
        results: The results of a user message.
    """

    index: int
    role: object
    content: object
    blocks: tuple[Block, ...] | None
    calls: tuple[Block, ...]
    results: tuple[Block, ...]


def id_of(call_or_result: Mapping[str, object] | None) -> str | None:
    """Return the id of a call or result; None when it is missing."""
    return as_id((call_or_result or {}).get("toolUseId"))


def read_messages(messages: Sequence[Mapping[str, object]]) -> list[Message]:
    """Return the messages of a history, in order."""
    return [_read_message(index, message) for index, message in enumerate(messages)]


def _read_message(index: int, message: Mapping[str, object]) -> Message:
    role, content = message.get("role"), message.get("content")
    blocks = _read_blocks(content)
    calls = [block for block in blocks or () if block.call is not None and not block.is_server_call]
    results = [block for block in blocks or () if block.result is not None]
    return Message(
        index=index,
        role=role,
        content=content,
        blocks=blocks,
        calls=tuple(calls) if role == "assistant" else (),
        results=tuple(results) if role == "user" else (),
    )


def _read_blocks(content: object) -> tuple[Block, ...] | None:
    items = as_items(content)
    if items is None:
        return None
    blocks: list[Block] = []
    for position, item in enumerate(items):
        fields = as_mapping(item)
        call = as_mapping((fields or {}).get("toolUse"))
        result = as_mapping((fields or {}).get("toolResult"))
        blocks.append(Block(position=position, fields=fields, call=call, result=result))
    return tuple(blocks)
