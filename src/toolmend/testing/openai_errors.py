"""Errors in the shape of OpenAI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolmend.testing.endpoint import Refusal
    from toolmend.testing.replies import JsonObject


def openai_error_body(refusal: Refusal) -> JsonObject:
    """Return the error object of OpenAI."""
    kinds = {429: "rate_limit_error"}
    default = "invalid_request_error" if refusal.status < 500 else "server_error"  # noqa: PLR2004
    kind = kinds.get(refusal.status, default)
    error = {
        "message": refusal.message,
        "type": kind,
        "param": refusal.param,
        "code": refusal.code,
    }
    return {"error": error}
