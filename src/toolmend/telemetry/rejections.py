"""Rejections: provider errors that say the history was broken, told from all other 400s.

Wordings vary by host and date, so an error is recognised by its status and a few stable words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

_BAD_REQUEST: Final = 400
_MAX_TEXT: Final = 20_000
_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # OpenAI Chat and hosts compatible with it
        r"tool_calls['\"`]? must be followed by tool messages",
        r"tool_call_id['\"`]? of \S+ not found in ['\"`]?tool_calls",
        r"tool_call_ids? did not have response messages",
        r"insufficient tool messages following tool_calls",
        r"role ['\"`]?tool['\"`]? must be a response to a prece+ding message with ['\"`]?tool_calls",
        # Anthropic
        r"`?(?:\w+_)?tool_use`? ids? (?:were|was) found without `?\w*tool_result`? blocks?",
        r"tool use with id \S+ was found without a corresponding `?\w*tool_result`? block",
        r"unexpected `?tool_use_id`? found in `?\w*tool_result`? blocks?",
        r"`?tool_use`? ids? must be unique",
        r"each `?tool_use`? must have a single result",
        r"did not find \d+ `?tool_result`? block",
        # OpenAI Responses
        r"no tool output found for [\w ]*call \S+",
        r"no tool call found for [\w ]*call output with call_id",
        r"of type ['\"`]?reasoning['\"`]? was provided without its required following item",
        r"was provided without its required ['\"`]?reasoning['\"`]? item",
        # Gemini
        r"number of function response parts (?:is )?equal to the number of function call parts",
        r"function call turn comes? immediately after a user turn",
        r"function response turn comes? immediately after a function call turn",
        # Bedrock
        r"expected toolresult blocks at messages\.\d+",
        r"number of toolresult blocks at messages\.\d+\S* exceeds the number of tooluse blocks",
        # Mistral
        r"not the same number of function calls and responses",
        r"unexpected role ['\"`]?\w+['\"`]? after role ['\"`]?(?:tool|assistant)",
        r"expected last role .{0,60} but got",
    )
)


def is_history_rejection(error: BaseException) -> bool:
    """Tell whether a provider refused the history of a request.

    Args:
        error: what the model call raised: an SDK's status error, or anything that carries a status.
    """
    with suppress(Exception):
        if _status(error) != _BAD_REQUEST:
            return False
        text = _text(error)
        return any(pattern.search(text) for pattern in _PATTERNS)
    return False


def _status(error: BaseException) -> object:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore keeps a dict there
        metadata = response.get("ResponseMetadata")
        return metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    return None


def _text(error: BaseException) -> str:
    texts = [str(error)]
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            texts.append(str(inner.get("message", "")))
    elif isinstance(body, str):
        texts.append(body)
    response = getattr(error, "response", None)
    with suppress(Exception):  # a streamed response has no text to give
        texts.append(str(getattr(response, "text", "")))
    return "\n".join(text[:_MAX_TEXT] for text in texts)
