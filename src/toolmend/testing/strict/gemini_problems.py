"""Problems of Gemini, in the words of that API."""

from __future__ import annotations

from toolmend.testing.strict.problem import Problem

_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
_CALL_PLACE = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
_RESPONSE_PLACE = (
    "Please ensure that function response turn comes immediately after a function call turn."
)


def dangling(index: int, call_ids: tuple[str, ...]) -> Problem:
    """Calls that the next content does not answer (google-gemini/gemini-cli#16543)."""
    return Problem(kind="dangling", index=index, call_ids=call_ids, message=_COUNT)


def orphan(index: int, call_id: str | None, *, is_behind_calls: bool) -> Problem:
    """A response without a call in the content before it (uezo/ChatdollKit#371)."""
    return _about("orphan", index, call_id, _COUNT if is_behind_calls else _RESPONSE_PLACE)


def duplicate_result(index: int, call_id: str | None) -> Problem:
    """A second response for one call (cloudwego/eino-ext#571)."""
    return _about("duplicate_result", index, call_id, _COUNT)


def bad_first_turn(index: int) -> Problem:
    """A history that opens with a call (RightNow-AI/openfang#1011)."""
    return _about("bad_first_turn", index, None, _CALL_PLACE)


def misplaced_call(index: int) -> Problem:
    """Calls behind a content of the model, or in one of the user (gemini-cli#11814)."""
    return _about("misplaced_call", index, None, _CALL_PLACE)


def misplaced_result(index: int, call_id: str | None) -> Problem:
    """A response in a content of the model (google-gemini/gemini-cli#26956)."""
    return _about("misplaced_result", index, call_id, _RESPONSE_PLACE)


def wrong_name(index: int, call_id: str | None) -> Problem:
    """A response with the id of a call and the name of another function (page GEM-FC)."""
    text = "Please ensure that the function response name matches the function call name."
    return _about("wrong_name", index, call_id, text)


def missing_id(index: int, call_id: str) -> Problem:
    """A response without the id that its call has (page GEM-FC)."""
    text = "Please ensure that the function response id matches the function call id."
    return _about("missing_id", index, call_id, text)


def mixed_result_turn(index: int, position: int) -> Problem:
    """Something between the responses of a parallel batch (google-gemini/gemini-cli#16135)."""
    message = f"{_COUNT} (contents[{index}].parts[{position}])"
    return _about("mixed_result_turn", index, None, message)


def nameless_call(index: int, position: int, call_id: str | None) -> Problem:
    """A call without a function name."""
    field = f"contents[{index}].parts[{position}].function_call.name"
    text = f"* GenerateContentRequest.{field}: Name cannot be empty.\n"
    return _about("nameless_call", index, call_id, text)


def invalid_arguments(index: int, position: int, call_id: str | None) -> Problem:
    """`args` that are no object."""
    field = f"contents[{index}].parts[{position}].function_call.args"
    return _about("invalid_arguments", index, call_id, _invalid_value(field))


def invalid_result(index: int, position: int, call_id: str | None) -> Problem:
    """A `response` that is no object (page GEM-FC)."""
    field = f"contents[{index}].parts[{position}].function_response.response"
    return _about("invalid_result", index, call_id, _invalid_value(field))


def invalid_shape(index: int, field: str) -> Problem:
    """A part, call or response that is no object, or parts that are no list."""
    return _about("invalid_shape", index, None, _invalid_value(f"contents[{index}].{field}"))


def empty_content(index: int) -> Problem:
    """A content without parts (vercel/ai#3775)."""
    text = f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n"
    return _about("empty_content", index, None, text)


def empty_part(index: int, position: int) -> Problem:
    """A part without data (54xzh/FLIT#69)."""
    text = (
        f"* GenerateContentRequest.contents[{index}].parts[{position}].data: required oneof field "
        "'data' must have one initialized field\n"
    )
    return _about("empty_part", index, None, text)


def misplaced_signature(index: int, name: str | None, call_id: str | None) -> Problem:
    """A batch that is signed, but not at its first call (page GEM-TS; pipecat-ai/pipecat#3420)."""
    text = (
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model "
        f"performance. Additional data, function call `default_api:{name}` , position {index + 1}."
    )
    return _about("misplaced_signature", index, call_id, text)


def _invalid_value(field: str) -> str:
    return f"Invalid value at '{field}'"


def _about(kind: str, index: int, call_id: str | None, message: str) -> Problem:
    call_ids = () if call_id is None else (call_id,)
    return Problem(kind=kind, index=index, call_ids=call_ids, message=message)
