"""Answers: the calls that an application has to run, and their results as each format writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from toolmend.errors import UnrecognizedHistoryError
from toolmend.formats import FORMATS, Format
from toolmend.formats.fields import get
from toolmend.formats.gemini_parts import response_part
from toolmend.formats.langchain import made_message
from toolmend.formats.openai_responses import new_result
from toolmend.formats.responses_items import BY_CALL, CUSTOM, FUNCTION
from toolmend.mending.transcript import Call

_FORMATS_WITHOUT_IDS: Final = ("gemini",)
_MESSAGE_FORMATS: Final = ("openai-chat", "openai-responses", "langchain")


class AskedCall(NamedTuple):
    """One call that the application has to run.

    Attributes:
        id: None where the format needs none and the model gave none.
        name: empty when the call has no usable name.
        arguments: as the message has them: JSON text, or an object.
        is_text: the arguments are one free text, not an object.
        family: kind of the call, where the format has several.
        part: what the call stands in, for answers that are spelled alike.
    """

    id: str | None
    name: str
    arguments: object
    is_text: bool
    family: str
    part: object


def asked_calls(messages: Sequence[object], wire: Format) -> list[AskedCall]:
    """Return the calls of an assistant message that the application runs, in order.

    What the provider runs itself is left out, and so is what nothing could answer: computer use, which
    takes no text, and calls without an id where results go by it.

    Args:
        messages: the message, or the items of one answer.
        wire: their format.

    Raises:
        MalformedHistoryError: a message has a shape that no format knows.
    """
    transcript = wire.read(messages)
    return [
        _asked(wire, messages[call.message], call)
        for call in transcript.calls
        if not call.server
        and call.answerable
        and (call.id is not None or wire.NAME in _FORMATS_WITHOUT_IDS)
    ]


def _asked(wire: Format, message: object, call: Call) -> AskedCall:
    part: object = None
    is_text = call.family == CUSTOM.call
    if wire.NAME == "gemini":
        parts = get(message, "parts")
        part = parts[call.slot] if isinstance(parts, list | tuple) and call.slot >= 0 else message
    elif wire.NAME in ("openai-chat", "langchain"):
        calls = get(message, "tool_calls")
        is_listed = isinstance(calls, list | tuple) and 0 <= call.slot < len(calls)
        is_text = is_listed and get(calls[call.slot], "type") == "custom"
    return AskedCall(call.id, call.name, call.arguments, is_text, call.family, part)


def answer_part(
    format: str,
    *,
    call_id: str | None,
    tool_name: str,
    text: str,
    is_error: bool,
    family: str = "",
    like: object = None,
) -> object:
    """Return what answers one call.

    A whole message where results are messages, else the block or part that goes into a user message.

    Args:
        format: name of the format.
        call_id: id of the call.
        tool_name: name of the tool.
        text: the result.
        is_error: whether it tells of a failure.
        family: kind of the call, where the format has several.
        like: the part of the call, whose spelling is followed.

    Raises:
        UnrecognizedHistoryError: there is no such format.
        ValueError: the call has no id, and the format needs one.
    """
    if format not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise UnrecognizedHistoryError(f"there is no format {format!r}; use one of {known}")
    if format == "gemini":
        return response_part(call_id, tool_name, {"error" if is_error else "output": text}, like)
    if call_id is None:
        raise ValueError(f"a result in the format {format} needs the id of its call")
    match format:
        case "openai-chat":
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case "openai-responses":
            ended = {"type": "exit", "exit_code": int(is_error)}
            kind = BY_CALL.get(family, FUNCTION)
            return new_result(kind, call_id, text, is_error=is_error, outcome=ended)
        case "anthropic":
            block: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": text,
            }
            return {**block, "is_error": True} if is_error else block
        case "bedrock":
            # No status: not every model of the Converse API takes one.
            return {"toolResult": {"toolUseId": call_id, "content": [{"text": text}]}}
        case _:
            return made_message(
                "ToolMessage",
                content=text,
                tool_call_id=call_id,
                name=tool_name,
                status="error" if is_error else "success",
            )


def answer_messages(format: str, parts: Sequence[object]) -> list[object]:
    """Return the messages that the answers of one batch make up; none for no answers."""
    if format in _MESSAGE_FORMATS or not parts:
        return list(parts)
    key = "parts" if format == "gemini" else "content"
    return [{"role": "user", key: list(parts)}]
