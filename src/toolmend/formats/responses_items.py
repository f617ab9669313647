"""The items of OpenAI Responses: families of calls, what answers each, and which items stand for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from toolmend.formats.fields import get

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Family(NamedTuple):
    """One kind of call.

    Attributes:
        call: type of the call item.
        result: type of the item that answers it.
        named: whether the item carries a name; else the family itself is the name of the tool.
        text: name of the field that holds arguments or input as text, empty when there is none.
    """

    call: str
    result: str
    named: bool = False
    text: str = ""

    @property
    def tool(self) -> str:
        """The name that stands for tools of this family which have none."""
        return self.call.removesuffix("_call")


FUNCTION: Final = Family("function_call", "function_call_output", named=True, text="arguments")
CUSTOM: Final = Family("custom_tool_call", "custom_tool_call_output", named=True, text="input")
LOCAL_SHELL: Final = Family("local_shell_call", "local_shell_call_output")
SHELL: Final = Family("shell_call", "shell_call_output")
APPLY_PATCH: Final = Family("apply_patch_call", "apply_patch_call_output")
COMPUTER: Final = Family("computer_call", "computer_call_output")

_FAMILIES: Final = (FUNCTION, CUSTOM, LOCAL_SHELL, SHELL, APPLY_PATCH, COMPUTER)
BY_CALL: Final[Mapping[str | None, Family]] = {family.call: family for family in _FAMILIES}
BY_RESULT: Final[Mapping[str | None, Family]] = {family.result: family for family in _FAMILIES}

REASONING: Final = "reasoning"
REFERENCE: Final = "item_reference"
MESSAGE: Final = "message"
HOSTED: Final = frozenset(
    (
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_request", "tool_search_call", "program"),
    )
)
"""Items that the model makes and that the client does not answer."""
_OTHER_ITEMS: Final = HOSTED | {
    *(MESSAGE, REASONING, REFERENCE, "compaction", "compaction_trigger"),
    *("additional_tools", "configuration_update", "mcp_approval_response"),
    *("program_output", "tool_search_output"),
}
NOT_LED: Final = frozenset(("mcp_approval_response", "compaction", REFERENCE))
"""Items without a role that reasoning does not lead to."""


def type_of(item: object) -> str | None:
    """Return the type of an item; messages and references may leave it out."""
    kind = get(item, "type")
    if kind is None:
        if get(item, "role") is not None:
            return MESSAGE
        return REFERENCE if isinstance(get(item, "id"), str) else None
    return kind if isinstance(kind, str) else None


def is_item_type(kind: object) -> bool:
    """Tell whether something is the type of an item; the provider's own tools bring new ones."""
    return isinstance(kind, str) and (
        kind in _OTHER_ITEMS or kind in BY_CALL or kind in BY_RESULT or kind.endswith("_call")
    )


def result_id(item: object, family: Family) -> object:
    """Return the id of the call that a result item answers."""
    call_id = get(item, "call_id")
    if call_id is None and family is LOCAL_SHELL:
        return get(item, "id")  # the SDK's type has no call_id here
    return call_id


def text_of_output(item: object) -> str | None:
    """Return the text of a result item; None when something other than text is in it."""
    output = get(item, "output")
    if isinstance(output, str):
        return output
    if not isinstance(output, list | tuple):
        return None
    texts = [_text_of_part(part) for part in output]
    return "".join(text or "" for text in texts) if texts and None not in texts else None


def _text_of_part(part: object) -> str | None:
    """Return the text of a content part, or what a shell command printed."""
    if get(part, "stdout") is not None or get(part, "stderr") is not None:
        printed = [get(part, "stdout") or "", get(part, "stderr") or ""]
        return "".join(text for text in printed if isinstance(text, str))
    text = get(part, "text")
    return text if isinstance(text, str) else None


def refers_to_server(items: Sequence[object]) -> bool:
    """Tell whether some of a history is only referred to and lies on the provider's server."""
    return any(type_of(item) == REFERENCE for item in items)
