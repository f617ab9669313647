"""Where the ids of calls and results stand, in each format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict import bedrock_blocks, gemini_contents
from toolmend.testing.strict.langchain import call_ids_of, result_id_of
from toolmend.testing.strict.plain import as_id, as_items, as_mapping
from toolmend.testing.strict.responses_items import read_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from toolmend.testing.strict.recogniser import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedId:
    """An id of a call that the client runs, or of its result.

    Attributes:
        index: Index of its message.
        field: Where it stands in the request.
        call_id: The id.
    """

    index: int
    field: str
    call_id: str


def placed_ids(messages: Sequence[object], known_format: Format) -> Iterator[PlacedId]:
    """Yield every id that is there, in order."""
    reader: Callable[[Sequence[Any]], Iterator[tuple[int, str, str | None]]]
    reader = _READERS[known_format]
    for index, field, call_id in reader(messages):
        if call_id is not None:
            yield PlacedId(index=index, field=field, call_id=call_id)


def _of_chat(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, str, str | None]]:
    for index, message in enumerate(messages):
        if message.get("role") == "assistant":
            for position, item in enumerate(as_items(message.get("tool_calls")) or ()):
                call = as_mapping(item) or {}
                yield index, f"messages[{index}].tool_calls[{position}].id", as_id(call.get("id"))
        elif message.get("role") == "tool":
            field = f"messages[{index}].tool_call_id"
            yield index, field, as_id(message.get("tool_call_id"))


def _of_langchain(messages: Sequence[object]) -> Iterator[tuple[int, str, str | None]]:
    for index, message in enumerate(messages):
        for position, call_id in enumerate(call_ids_of(message)):
            yield index, f"messages[{index}].tool_calls[{position}].id", call_id
        yield index, f"messages[{index}].tool_call_id", result_id_of(message)


def _of_anthropic(
    messages: Sequence[Mapping[str, object]],
) -> Iterator[tuple[int, str, str | None]]:
    for index, message in enumerate(messages):
        for position, item in enumerate(as_items(message.get("content")) or ()):
            block = as_mapping(item) or {}
            place = f"messages.{index}.content.{position}"
            if block.get("type") == "tool_use":
                yield index, f"{place}.tool_use.id", as_id(block.get("id"))
            elif block.get("type") == "tool_result":
                yield index, f"{place}.tool_result.tool_use_id", as_id(block.get("tool_use_id"))


def _of_responses(
    messages: Sequence[Mapping[str, object]],
) -> Iterator[tuple[int, str, str | None]]:
    for item in read_items(messages):
        if item.is_call or item.is_output:
            yield item.index, f"input[{item.index}].{item.id_field}", item.call_id


def _of_gemini(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, str, str | None]]:
    for content in gemini_contents.read_contents(messages):
        for part in content.parts or ():
            place = f"contents[{content.index}].parts[{part.position}]"
            for kind, value in (
                ("function_call", part.call),
                ("function_response", part.response),
            ):
                if value is not None:
                    yield content.index, f"{place}.{kind}.id", gemini_contents.id_of(value)


def _of_bedrock(messages: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, str, str | None]]:
    for message in bedrock_blocks.read_messages(messages):
        for block in message.blocks or ():
            place = f"messages.{message.index}.content.{block.position}"
            for kind, value in (("toolUse", block.call), ("toolResult", block.result)):
                if value is not None and not block.is_server_call:
                    yield message.index, f"{place}.{kind}.toolUseId", bedrock_blocks.id_of(value)


_READERS: dict[str, Callable[..., Iterator[tuple[int, str, str | None]]]] = {
    "openai-chat": _of_chat,
    "openai-responses": _of_responses,
    "anthropic": _of_anthropic,
    "gemini": _of_gemini,
    "bedrock": _of_bedrock,
    "langchain": _of_langchain,
}
