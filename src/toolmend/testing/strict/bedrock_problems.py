"""Problems of Bedrock Converse, in the words of that API."""

from __future__ import annotations

from toolmend.testing.strict.problem import Problem

_NOT_EMPTY = "Member must have length greater than or equal to 1"
_PATTERN = (
    "Member must have length between 1 and 64 and satisfy regular expression pattern: "
    "[a-zA-Z0-9_-]+"
)


def dangling(index: int, call_ids: tuple[str, ...]) -> Problem:
    """Calls that the next message does not answer (ag-ui-protocol/ag-ui#1847)."""
    return Problem(
        kind="dangling",
        index=index,
        call_ids=call_ids,
        message=f"Expected toolResult blocks at messages.{index + 1}.content for the following "
        f"Ids: {', '.join(call_ids)}",
    )


def orphan(index: int, call_id: str) -> Problem:
    """A result without its call in the turn before (strands-agents/harness-sdk#1435)."""
    text = (
        f"The number of toolResult blocks at messages.{index}.content exceeds the number of "
        "toolUse blocks of previous turn."
    )
    return _about("orphan", index, text, call_id)


def duplicate_result(index: int, call_id: str) -> Problem:
    """A second result for one call (BerriAI/litellm#20048)."""
    text = f"The toolResult blocks at messages.{index}.content contain duplicate Ids: {call_id}"
    return _about("duplicate_result", index, text, call_id)


def duplicate_id(index: int, call_id: str) -> Problem:
    """An id that two calls of one turn share (BerriAI/litellm#20049)."""
    text = f"The toolUse blocks at messages.{index}.content contain duplicate Ids: {call_id}"
    return _about("duplicate_id", index, text, call_id)


def role_order(index: int) -> Problem:
    """Two messages of one role in a row (langchain-ai/langchain-aws#192)."""
    text = (
        "A conversation must alternate between user and assistant roles. Make sure the "
        "conversation alternates between user and assistant roles and try again."
    )
    return _about("role_order", index, text)


def bad_first_turn(index: int) -> Problem:
    """A history that the assistant opens (langgenius/dify#12340)."""
    text = (
        "A conversation must start with a user message. Try again with a conversation that starts "
        "with a user message."
    )
    return _about("bad_first_turn", index, text)


def empty_content(index: int) -> Problem:
    """A message without blocks (earendil-works/pi#3443)."""
    text = (
        f"The content field in the Message object at messages.{index} is empty. Add a ContentBlock "
        "object to the content field and try again."
    )
    return _about("empty_content", index, text)


def blank_text(index: int, position: int) -> Problem:
    """A text block of nothing but blanks (boto/botocore#3525, NousResearch/hermes-agent#60628)."""
    text = (
        f"The text field in the ContentBlock object at messages.{index}.content.{position} is "
        "blank. Add text to the text field, and try again."
    )
    return _about("blank_text", index, text)


def misplaced_call(index: int, position: int, call_id: str | None) -> Problem:
    """A call in a user message."""
    return _wrong_side("misplaced_call", index, position, "toolUse", call_id)


def misplaced_result(index: int, position: int, call_id: str | None) -> Problem:
    """A result in an assistant message."""
    return _wrong_side("misplaced_result", index, position, "toolResult", call_id)


def missing_id(index: int, position: int, kind: str) -> Problem:
    """A call or result without an id (page AWS-TR)."""
    return _about(
        "missing_id", index, _constraint(index, position, f"{kind}.toolUseId", _NOT_EMPTY)
    )


def malformed_id(index: int, position: int, call_id: str) -> Problem:
    """An id with other characters (bvcyber/Cyber-AutoAgent-ng#72), or one that is too long."""
    message = _constraint(index, position, "toolUse.toolUseId", _PATTERN)
    return _about("malformed_id", index, message, call_id)


def nameless_call(index: int, position: int, call_id: str | None) -> Problem:
    """A call without a tool name."""
    message = _constraint(index, position, "toolUse.name", _NOT_EMPTY)
    return _about("nameless_call", index, message, call_id)


def malformed_name(index: int, position: int, call_id: str | None) -> Problem:
    """A tool name with other characters, or one that is too long (page AWS-CV)."""
    message = _constraint(index, position, "toolUse.name", _PATTERN)
    return _about("malformed_name", index, message, call_id)


def invalid_arguments(index: int, position: int, call_id: str | None) -> Problem:
    """An `input` that is no object (page AWS-TR)."""
    text = (
        f"The format of the value at messages.{index}.content.{position}.toolUse.input is invalid. "
        "Provide a json object for the field and try again."
    )
    return _about("invalid_arguments", index, text, call_id)


def invalid_result(index: int, position: int, call_id: str | None) -> Problem:
    """A `content` of a result that is no list (page AWS-TR)."""
    message = _constraint(index, position, "toolResult.content", "Member must be a list")
    return _about("invalid_result", index, message, call_id)


def invalid_shape(index: int, field: str) -> Problem:
    """A content that is no list, or a block that is no object."""
    return _about("invalid_shape", index, f"The value at messages.{index}.{field} is invalid.")


def mixed_result_turn(index: int) -> Problem:
    """Results beside other blocks, for open-weight models (strands-agents/harness-sdk#1223)."""
    text = (
        f"The toolResult blocks at messages.{index}.content cannot be combined with other content "
        "blocks."
    )
    return _about("mixed_result_turn", index, text)


def _wrong_side(kind: str, index: int, position: int, block: str, call_id: str | None) -> Problem:
    role = "user" if block == "toolUse" else "assistant"
    text = (
        f"The ContentBlock object at messages.{index}.content.{position} contains a {block} block, "
        f"which messages of the role {role} do not support."
    )
    return _about(kind, index, text, call_id)


def _constraint(index: int, position: int, field: str, text: str) -> str:
    path = f"messages.{index + 1}.member.content.{position + 1}.member.{field}"
    return f"1 validation error detected: Value at '{path}' failed to satisfy constraint: {text}"


def _about(kind: str, index: int, message: str, call_id: str | None = None) -> Problem:
    call_ids = () if call_id is None else (call_id,)
    return Problem(kind=kind, index=index, call_ids=call_ids, message=message)
