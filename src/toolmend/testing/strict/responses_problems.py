"""Problems of OpenAI Responses, in the words of that API."""

from __future__ import annotations

from toolmend.testing.strict.plain import shown
from toolmend.testing.strict.problem import Problem, invalid_field

_PARAM = "input"


def dangling(index: int, kind: str, call_id: str) -> Problem:
    """A call without an output behind it (openai/codex#29773)."""
    return _paired(
        "dangling", index, call_id, f"No tool output found for {_spoken(kind)} {call_id}."
    )


def orphan(index: int, kind: str, call_id: str) -> Problem:
    """An output without its call before it (openai/openai-agents-python#4827)."""
    return _paired("orphan", index, call_id, _stray(kind, call_id))


def wrong_result_type(index: int, kind: str, call_id: str) -> Problem:
    """An output of another family than its call (farion1231/cc-switch#7509)."""
    return _paired("wrong_result_type", index, call_id, _stray(kind, call_id))


def duplicate_result(index: int, kind: str, call_id: str) -> Problem:
    """A second output for one call (router-for-me/CLIProxyAPI#4998)."""
    text = f"Duplicate {_spoken(kind)} found with call_id {call_id}."
    return _paired("duplicate_result", index, call_id, text)


def duplicate_id(index: int, kind: str, call_id: str) -> Problem:
    """A `call_id` that a call before it has; that it is refused is not confirmed."""
    text = f"Duplicate {_spoken(kind)} found with call_id {call_id}."
    return _paired("duplicate_id", index, call_id, text)


def orphan_reasoning(index: int, item_id: str) -> Problem:
    """Reasoning that leads to nothing (openai/openai-agents-python#3207)."""
    return Problem(
        kind="orphan_reasoning",
        index=index,
        message=f"Item '{item_id}' of type 'reasoning' was provided without its required "
        "following item.",
        param=_PARAM,
    )


def missing_id(index: int, field: str) -> Problem:
    """A call or output that names no `call_id`."""
    return _invalid("missing_id", index, field, "a non-empty string")


def malformed_item_id(index: int, item_id: object, call_id: str | None) -> Problem:
    """The id of a call item with another prefix (continuedev/continue#10092)."""
    param = f"input[{index}].id"
    return Problem(
        kind="malformed_id",
        index=index,
        call_ids=() if call_id is None else (call_id,),
        message=f"Invalid '{param}': '{shown(item_id)}'. Expected an ID that begins with 'fc'.",
        param=param,
    )


def nameless_call(index: int, call_id: str | None) -> Problem:
    """A call without a tool name."""
    return _invalid("nameless_call", index, "name", "a non-empty string", call_id=call_id)


def invalid_arguments(index: int, call_id: str | None) -> Problem:
    """Arguments that are no string with a JSON object (open-webui/computer#252)."""
    expected = "a string holding a JSON object"
    return _invalid("invalid_arguments", index, "arguments", expected, call_id=call_id)


def invalid_result(index: int, field: str, expected: str, call_id: str | None) -> Problem:
    """An output in another shape than its family wants (item types of openai-python)."""
    return _invalid("invalid_result", index, field, expected, call_id=call_id)


def _stray(kind: str, call_id: str) -> str:
    return f"No tool call found for {_spoken(kind)} with call_id {call_id}."


def _spoken(kind: str) -> str:
    return kind.replace("_", " ")


def _paired(problem: str, index: int, call_id: str, message: str) -> Problem:
    return Problem(kind=problem, index=index, call_ids=(call_id,), message=message, param=_PARAM)


def _invalid(
    kind: str, index: int, field: str, expected: str, *, call_id: str | None = None
) -> Problem:
    return invalid_field(kind, index, f"input[{index}].{field}", expected, call_id=call_id)
