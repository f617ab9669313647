"""Items of an OpenAI Responses history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolmend.testing.strict.plain import as_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Families of calls that the client answers (item types of openai-python).
ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
OUTPUTS = frozenset(ANSWERS.values())
REASONING = "reasoning"
_MESSAGE = "message"
_REFERENCE = "item_reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item and its place.

    Attributes:
        index: Index in the list.
        kind: Its `type`; `message` for a dict that has but a role, empty when nothing tells.
        fields: The item as a mapping.
    """

    index: int
    kind: str
    fields: Mapping[str, object]

    @property
    def is_call(self) -> bool:
        """Whether the client has to answer this item."""
        return self.kind in ANSWERS

    @property
    def is_output(self) -> bool:
        """Whether this item answers a call."""
        return self.kind in OUTPUTS

    @property
    def is_message(self) -> bool:
        """Whether this is a message, of whichever role."""
        return self.kind == _MESSAGE

    @property
    def is_of_model(self) -> bool:
        """Whether the model made this item: reasoning may lead to it. Unknown types count."""
        if self.is_message:
            return self.fields.get("role") == "assistant"
        return not self.kind.endswith("_output") and self.kind != "mcp_approval_response"

    @property
    def id_field(self) -> str:
        """The field that pairs calls and outputs."""
        return "id" if self.kind == "local_shell_call_output" else "call_id"

    @property
    def call_id(self) -> str | None:
        """The id that pairs calls and outputs; None when it is missing."""
        return as_id(self.fields.get(self.id_field))


def read_items(messages: Sequence[Mapping[str, object]]) -> list[Item]:
    """Return the items of a history, in order."""
    return [
        Item(index=index, kind=_kind_of(fields), fields=fields)
        for index, fields in enumerate(messages)
    ]


def refers_to_server(messages: Sequence[Mapping[str, object]]) -> bool:
    """Tell whether the list refers to an item that only the server knows."""
    return any(_kind_of(fields) == _REFERENCE for fields in messages)


def _kind_of(fields: Mapping[str, object]) -> str:
    kind = fields.get("type")
    if isinstance(kind, str):
        return kind
    if fields.get("role") is not None:
        return _MESSAGE
    return _REFERENCE if kind is None and fields.get("id") is not None else ""
