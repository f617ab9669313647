"""Parts of Gemini contents, in camelCase as on the wire or in snake_case as in the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolmend.formats.fields import get

ARGS: Final = "args"
ITSELF: Final = -1
"""The slot of a part that stands in the list without a content around it."""
_CAMEL: Final = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "thought_signature": "thoughtSignature",
}


def field(part: object, name: str, like: str = "") -> str:
    """Return how a part spells a field, given in snake_case.

    Args:
        part: a dict or an object of the SDK.
        name: the field.
        like: another field of the part, whose spelling is followed.
    """
    known = like or name
    is_camel = isinstance(part, Mapping) and _CAMEL[known] in part
    return _CAMEL[name] if is_camel else name


def has_parts(item: object) -> bool:
    """Tell whether an item of a list is a content, and not a part that stands alone."""
    if type(item) is dict:
        return "parts" in item
    return "parts" in item if isinstance(item, Mapping) else hasattr(item, "parts")


def call_in(part: object) -> Any:
    """Return the function call of a part, None if it has none."""
    if type(part) is dict:
        found = part.get("functionCall")
        return found if found is not None else part.get("function_call")
    return get(part, field(part, "function_call"))


def response_in(part: object) -> Any:
    """Return the function response of a part, None if it has none."""
    if type(part) is dict:
        found = part.get("functionResponse")
        return found if found is not None else part.get("function_response")
    return get(part, field(part, "function_response"))


def response_part(
    call_id: str | None, name: str, response: Mapping[str, object], like: object = None
) -> object:
    """Return a new part with the response to a call.

    Args:
        call_id: id of the call, None where it has none.
        name: of the tool.
        response: what answers it.
        like: the part of the call, whose spelling is followed: a dict for a dict, an SDK's object for one.
    """
    answer: dict[str, object] = {"name": name, "response": response}
    if call_id is not None:
        answer = {"id": call_id, **answer}
    if like is None:
        return {"functionResponse": answer}
    if isinstance(like, Mapping):
        return {field(like, "function_response", like="function_call"): answer}
    validate = getattr(type(like), "model_validate", None)
    made = {"function_response": answer}
    return validate(made) if callable(validate) else made


def is_signed(part: object) -> bool:
    """Tell whether a part carries a thought signature."""
    return bool(get(part, field(part, "thought_signature")))


def name_of(item: object) -> str:
    """Return the name of a call or response, empty when that is no text."""
    name = get(item, "name")
    return name if isinstance(name, str) else ""


def text_of_response(response: object) -> str | None:
    """Return the text of a response that is one text alone, as placeholders are; else None."""
    value = get(response, "response")
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    [text] = value.values()
    return text if isinstance(text, str) else None
