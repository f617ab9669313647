"""Where a history stands in a JSON value, and whether its provider holds earlier messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolmend._histories.failure import StoredHistoryError
from toolmend.formats.server_state import continues

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTS: Final = ("messages", "input", "contents")
_WRAPPERS: Final = ("body", "params", "request", "modelInput")
"""How the batch APIs of OpenAI, Anthropic, Gemini and Bedrock call the body in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A history and what stands around it.

    Attributes:
        messages: the list; empty where the request has a plain text in its place.
        fields: the request that the list is part of; empty where the list stands alone.
    """

    messages: list[Any]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_on_server(self) -> bool:
        """Whether earlier messages live on the provider's server."""
        return continues(self.fields)


def find_body(value: object) -> Body:
    """Return the history in a JSON value: a list, a request body, or an object with one in a member.

    Raises:
        StoredHistoryError: there is none, or more than one.
    """
    if isinstance(value, list):
        return Body(messages=value)
    if not isinstance(value, dict):
        raise _no_history()
    found = _in_fields(value)
    if found is not None:
        return found
    members = {
        name: body
        for name, member in value.items()
        if isinstance(member, dict) and (body := _in_fields(member)) is not None
    }
    if len(members) > 1:
        members = {name: members[name] for name in _WRAPPERS if name in members}
        if len(members) != 1:
            raise StoredHistoryError(
                "more than one member holds a history; keep one of them in each line"
            )
    if not members:
        raise _no_history()
    [body] = members.values()
    return body


def _in_fields(fields: Mapping[str, Any]) -> Body | None:
    for name in LISTS:
        if isinstance(fields.get(name), list):
            return Body(messages=fields[name], fields=fields)
    if any(isinstance(fields.get(name), str) for name in LISTS):
        return Body(messages=[], fields=fields)
    return None


def _no_history() -> StoredHistoryError:
    return StoredHistoryError(
        "no history: neither a list of messages nor an object with a list named "
        f"{', '.join(LISTS[:-1])} or {LISTS[-1]}; take it out or name another file"
    )
