"""Problems of OpenAI Chat, in the words of that API."""

from __future__ import annotations

from toolmend.testing.strict.problem import Problem, invalid_field

_DANGLING = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. "
)
_ORPHAN = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)
COMPATIBLE_DANGLING = f"{_DANGLING}(insufficient tool messages following tool_calls message)"
"""How compatible hosts answer a dangling call, with param null (agno-agi/agno#1784)."""


def dangling(index: int, call_ids: tuple[str, ...]) -> Problem:
    """Calls that the run of tool messages behind them leaves open."""
    return Problem(
        kind="dangling",
        index=index,
        call_ids=call_ids,
        message=f"{_DANGLING}The following tool_call_ids did not have response messages: "
        + ", ".join(call_ids),
        param=f"messages.[{index}].role",
    )


def orphan(index: int, call_id: str) -> Problem:
    """A tool message that answers no call of the assistant message before its run."""
    return _stray("orphan", index, call_id)


def duplicate_result(index: int, call_id: str) -> Problem:
    """A second tool message for one call."""
    return _stray("duplicate_result", index, call_id)


def missing_call_id(index: int, position: int) -> Problem:
    """A call without an id."""
    return _invalid("missing_id", index, f"tool_calls[{position}].id", "a non-empty string")


def missing_result_id(index: int) -> Problem:
    """A tool message that names no call."""
    return _invalid("missing_id", index, "tool_call_id", "a non-empty string")


def duplicate_id(index: int, position: int, call_id: str) -> Problem:
    """An id that two calls of one assistant message share."""
    field = f"tool_calls[{position}].id"
    return _invalid("duplicate_id", index, field, "a distinct id", call_id=call_id)


def nameless_call(index: int, position: int, field: str, call_id: str | None) -> Problem:
    """A call without a function name."""
    field = f"tool_calls[{position}].{field}"
    return _invalid("nameless_call", index, field, "a non-empty string", call_id=call_id)


def invalid_arguments(index: int, position: int, call_id: str | None) -> Problem:
    """Arguments that are no string with a JSON object."""
    field = f"tool_calls[{position}].function.arguments"
    expected = "a string holding a JSON object"
    return _invalid("invalid_arguments", index, field, expected, call_id=call_id)


def empty_tool_calls(index: int) -> Problem:
    """An empty list of calls (charmbracelet/crush#920)."""
    return Problem(
        kind="empty_tool_calls",
        index=index,
        message=f"Invalid 'messages[{index}].tool_calls': empty array. Expected an array with "
        "minimum length 1, but got an empty array instead.",
        param=f"messages[{index}].tool_calls",
    )


def empty_content(index: int) -> Problem:
    """An assistant message with neither content nor calls (openai/openai-node#1341)."""
    return Problem(
        kind="empty_content",
        index=index,
        message="Invalid value for 'content': expected a string, got null.",
        param=f"messages.[{index}].content",
    )


def invalid_shape(index: int, field: str, expected: str) -> Problem:
    """A field that is not what the schema wants."""
    return _invalid("invalid_shape", index, field, expected)


def _stray(kind: str, index: int, call_id: str) -> Problem:
    return Problem(
        kind=kind,
        index=index,
        call_ids=(call_id,),
        message=_ORPHAN,
        param=f"messages.[{index}].role",
    )


def _invalid(
    kind: str, index: int, field: str, expected: str, *, call_id: str | None = None
) -> Problem:
    return invalid_field(kind, index, f"messages[{index}].{field}", expected, call_id=call_id)
