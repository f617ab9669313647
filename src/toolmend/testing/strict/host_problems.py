"""Problems that only some hosts have, in their words."""

from __future__ import annotations

from dataclasses import replace

from toolmend.testing.strict.problem import Problem

_MISTRAL_COUNT = "Not the same number of function calls and responses"
_PAIRING = ("dangling", "orphan", "duplicate_result")


def too_long_id(index: int, field: str, call_id: str, limit: int) -> Problem:
    """An id above the limit of the host (microsoft/autogen#6377)."""
    return Problem(
        kind="malformed_id",
        index=index,
        call_ids=(call_id,),
        message=f"Invalid '{field}': string too long. Expected a string with maximum length "
        f"{limit}, but got a string with length {len(call_id)} instead.",
        param=field,
    )


def mistral_id(index: int, call_id: str) -> Problem:
    """An id in another shape than Mistral takes (anomalyco/opencode#1680)."""
    return Problem(
        kind="malformed_id",
        index=index,
        call_ids=(call_id,),
        message=f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9.",
    )


def mistral_order(index: int) -> Problem:
    """A user message right behind a result (mistralai/mistral-vibe#578)."""
    return Problem(
        kind="role_order", index=index, message="Unexpected role 'user' after role 'tool'"
    )


def in_words_of_mistral(problem: Problem) -> Problem:
    """Return a problem of pairing as Mistral tells it (mistralai/client-ts#106)."""
    if problem.kind not in _PAIRING:
        return problem
    return replace(problem, message=_MISTRAL_COUNT, param=None)


def missing_reasoning(index: int) -> Problem:
    """Calls without the reasoning that other calls of the turn have (page DS-TM)."""
    return Problem(
        kind="missing_reasoning",
        index=index,
        message=f"Missing `reasoning_content` field in the assistant message at message index "
        f"{index}. For more information, please refer to "
        "https://api-docs.deepseek.com/guides/thinking_mode#tool-calls",
    )


def invalid_reasoning(index: int) -> Problem:
    """A `reasoning_content` that is no string (page DS-TM)."""
    return Problem(
        kind="invalid_shape",
        index=index,
        message=f"messages[{index}].reasoning_content: invalid type, expected a string",
    )


def dashscope_empty(index: int) -> Problem:
    """A message without content (HKUDS/nanobot#2469)."""
    return Problem(
        kind="empty_content",
        index=index,
        message="<400> InternalError.Algo.InvalidParameter: The content field is a required field.",
    )


def in_words_of_dashscope(problem: Problem) -> Problem:
    """Return unreadable arguments as DashScope tells them (HKUDS/nanobot#2469)."""
    if problem.kind != "invalid_arguments":
        return problem
    text = (
        '<400> InternalError.Algo.InvalidParameter: The "function.arguments" parameter of the code '
        "model must be in JSON format."
    )
    return replace(problem, message=text, param=None)


def split_results(index: int) -> Problem:
    """Results of one batch in neighbouring user messages (KunAgent/Kun#575)."""
    return Problem(
        kind="split_results",
        index=index,
        message=f"messages.{index}: roles must alternate between 'user' and 'assistant', but "
        "multiple 'user' roles in a row were found",
    )
