"""Problems of Anthropic Messages, in the words of that API."""

from __future__ import annotations

from toolmend.testing.strict.problem import Problem

_ID_PATTERN = "^[a-zA-Z0-9_-]+$"


def dangling(index: int, call_ids: tuple[str, ...]) -> Problem:
    """Client calls that the next user turn does not answer (anthropics/claude-code#5989)."""
    return _unanswered("dangling", index, index, call_ids)


def misplaced_result(index: int, call_index: int, call_id: str) -> Problem:
    """A result behind other blocks of its turn; the API says that it is missing (page CL-HT)."""
    return _unanswered("misplaced_result", index, call_index, (call_id,))


def orphan(index: int, position: int, call_id: str) -> Problem:
    """A `tool_result` without its call in the turn before (anthropics/claude-code#13460)."""
    return Problem(
        kind="orphan",
        index=index,
        call_ids=(call_id,),
        message=f"messages.{index}.content.{position}: unexpected `tool_use_id` found in "
        f"`tool_result` blocks: {call_id}. Each `tool_result` block must have a corresponding "
        "`tool_use` block in the previous message.",
    )


def duplicate_result(index: int, position: int, kind: str, call_id: str) -> Problem:
    """A second result for one call (RooCodeInc/Roo-Code#9248)."""
    return Problem(
        kind="duplicate_result",
        index=index,
        call_ids=(call_id,),
        message=f"messages.{index}.content.{position}: each tool_use must have a single result. "
        f"Found multiple `{kind}` blocks with id: {call_id}",
    )


def server_dangling(index: int, name: str, result_kind: str, call_id: str) -> Problem:
    """A call run by the service that is not answered in its turn and not deferred."""
    return Problem(
        kind="dangling",
        index=index,
        call_ids=(call_id,),
        message=f"messages.{index}: `{name}` tool use with id `{call_id}` was found without a "
        f"corresponding `{result_kind}` block",
    )


def server_orphan(index: int, position: int, kind: str, call_id: str) -> Problem:
    """A result of the service without its call before it (anthropics/claude-code#80439)."""
    call_kind = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
    return Problem(
        kind="orphan",
        index=index,
        call_ids=(call_id,),
        message=f"messages.{index}.content.{position}: unexpected `tool_use_id` found in `{kind}` "
        f"blocks: {call_id}. Each `{kind}` block must have a corresponding `{call_kind}` block "
        "before it.",
    )


def missing_id(index: int, position: int, field: str) -> Problem:
    """A call or result without an id; `field` is like `tool_use.id`."""
    return _at("missing_id", index, position, f"{field}: String should have at least 1 character")


def malformed_id(index: int, position: int, call_id: str) -> Problem:
    """A client id with other characters than the API takes (langchain-ai/langchain#37756)."""
    text = f"tool_use.id: String should match pattern '{_ID_PATTERN}'"
    return _at("malformed_id", index, position, text, call_id=call_id)


def duplicate_id(index: int, position: int, kind: str, call_id: str) -> Problem:
    """An id that is used before (NVIDIA-NeMo/Switchyard#502)."""
    text = f"content.{position}: `{kind}` ids must be unique"
    return Problem(
        kind="duplicate_id",
        index=index,
        call_ids=(call_id,),
        message=f"messages.{index}.{text}",
    )


def nameless_call(index: int, position: int, kind: str, call_id: str | None) -> Problem:
    """A call without a tool name."""
    text = f"{kind}.name: String should have at least 1 character"
    return _at("nameless_call", index, position, text, call_id=call_id)


def invalid_arguments(index: int, position: int, kind: str, call_id: str | None) -> Problem:
    """An `input` that is no object (earendil-works/pi#6284)."""
    text = f"{kind}.input: Input should be a valid dictionary"
    return _at("invalid_arguments", index, position, text, call_id=call_id)


def empty_content(index: int) -> Problem:
    """A message without content (lobehub/lobehub#1601)."""
    return Problem(
        kind="empty_content",
        index=index,
        message=f"messages.{index}: all messages must have non-empty content except for the "
        "optional final assistant message",
    )


def blank_text(index: int) -> Problem:
    """A text block of nothing but blanks (anthropics/claude-code#23440)."""
    return Problem(
        kind="blank_text",
        index=index,
        message="messages: text content blocks must contain non-whitespace text",
    )


def trailing_thinking(index: int, position: int, kind: str) -> Problem:
    """Thinking at the end of a turn that is not the last (anthropics/claude-code#63259)."""
    return Problem(
        kind="trailing_thinking",
        index=index,
        message=f"messages.{index}.content.{position}: The final block in an assistant message "
        f"cannot be `{kind}`.",
    )


def misplaced_system(index: int) -> Problem:
    """A system message right behind an assistant message (page CL-SYS)."""
    return Problem(
        kind="misplaced_system",
        index=index,
        message=f"messages.{index}: `system` messages must follow a `user` message",
    )


def invalid_shape(index: int, position: int) -> Problem:
    """A block that is no object."""
    return Problem(
        kind="invalid_shape",
        index=index,
        message=f"messages.{index}.content.{position}: Input should be an object",
    )


def _unanswered(kind: str, index: int, call_index: int, call_ids: tuple[str, ...]) -> Problem:
    return Problem(
        kind=kind,
        index=index,
        call_ids=call_ids,
        message=f"messages.{call_index}: `tool_use` ids were found without `tool_result` blocks "
        f"immediately after: {', '.join(call_ids)}. Each `tool_use` block must have a "
        "corresponding `tool_result` block in the next message.",
    )


def _at(kind: str, index: int, position: int, text: str, *, call_id: str | None = None) -> Problem:
    return Problem(
        kind=kind,
        index=index,
        call_ids=() if call_id is None else (call_id,),
        message=f"messages.{index}.content.{position}.{text}",
    )
