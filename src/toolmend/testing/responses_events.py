"""The stream of an answer of OpenAI Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from toolmend.testing.endpoint import halves, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing.replies import JsonObject


def response_events(answer: JsonObject) -> Iterator[bytes]:
    """Yield the events from `response.created` to `response.completed`, numbered."""
    for number, (kind, data) in enumerate(_events(answer)):
        name = f"response.{kind}"
        yield sse({"type": name, "sequence_number": number, **data}, event=name)


def _events(answer: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    start = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield "created", {"response": start}
    yield "in_progress", {"response": start}
    for index, item in enumerate(cast("list[JsonObject]", answer["output"])):
        make = _message_events if item["type"] == "message" else _call_events
        yield from make(index, item)
    yield "completed", {"response": answer}


def _message_events(index: int, item: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    place: JsonObject = {"output_index": index}
    empty = {**item, "status": "in_progress", "content": []}
    yield "output_item.added", {**place, "item": empty}
    (part,) = cast("list[JsonObject]", item["content"])
    inside: JsonObject = {**place, "item_id": item["id"], "content_index": 0}
    yield "content_part.added", {**inside, "part": {**part, "text": ""}}
    for text in halves(str(part["text"])):
        yield "output_text.delta", {**inside, "delta": text, "logprobs": []}
    yield "output_text.done", {**inside, "text": part["text"], "logprobs": []}
    yield "content_part.done", {**inside, "part": part}
    yield "output_item.done", {**place, "item": item}


def _call_events(index: int, item: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    place: JsonObject = {"output_index": index}
    empty = {**item, "status": "in_progress", "arguments": ""}
    yield "output_item.added", {**place, "item": empty}
    inside: JsonObject = {**place, "item_id": item["id"]}
    for text in halves(str(item["arguments"])):
        yield "function_call_arguments.delta", {**inside, "delta": text}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield "function_call_arguments.done", {**inside, **done}
    yield "output_item.done", {**place, "item": item}
