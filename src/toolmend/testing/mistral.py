"""What Mistral says where it differs from OpenAI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.testing.endpoint import Refusal

if TYPE_CHECKING:
    from toolmend.testing.replies import JsonObject
    from toolmend.testing.strict import Problem

_ID_DIGITS = 5


def mistral_rejection(problem: Problem) -> Refusal:
    """Return how Mistral refuses a history (BerriAI/litellm#17761, nearai/ironclaw#1241)."""
    if problem.kind == "malformed_id":
        return Refusal(message=problem.message, kind="invalid_function_call", code="3280")
    if problem.kind in ("dangling", "orphan", "duplicate_result", "role_order"):
        return Refusal(message=problem.message, kind="invalid_request_message_order", code="3230")
    return Refusal(message=problem.message)


def mistral_error_body(refusal: Refusal) -> JsonObject:
    """Return the error object of Mistral, which has no envelope."""
    return {
        "object": "error",
        "message": refusal.message,
        "type": refusal.kind or "invalid_request_error",
        "param": None,
        "code": refusal.code,
    }


def mistral_id(numbered_id: str) -> str:
    """Return an id such as `call_000001` as `call00001`: Mistral takes nine letters and digits."""
    return f"call{numbered_id[-_ID_DIGITS:]}"
