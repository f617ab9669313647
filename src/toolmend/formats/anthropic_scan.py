"""The fast check of Anthropic histories: one pass that stops at the first doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolmend.formats.anthropic_blocks import (
    LEGAL_ID,
    REASONING,
    SERVER_CALLS,
    is_allowed_end,
    is_blank,
    is_server_result,
)
from toolmend.formats.fields import get

if TYPE_CHECKING:
    from toolmend.mending.policy import Policy


def is_legal(messages: Sequence[object], policy: Policy) -> bool:  # noqa: ARG001 - every format takes both
    """Tell in one pass whether nothing has to be done.

    Open calls at the end and open server calls are a no: only the full path decides to leave them.
    """
    try:
        return _Scan().run(messages)
    except (KeyError, TypeError, AttributeError):
        return False


class _Scan:
    """One pass over a history that stops at the first doubt."""

    __slots__ = ("ends_in_reasoning", "pending", "server", "used")

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.pending: set[str] = set()
        self.server: set[str] = set()
        self.ends_in_reasoning = False

    def run(self, messages: Sequence[object]) -> bool:
        previous = None
        takes_results = False
        last = len(messages) - 1
        for index, message in enumerate(messages):
            role = get(message, "role")
            content = get(message, "content")
            if role == "assistant":
                if previous != "assistant":
                    if self.pending:
                        return False
                    self.server.clear()
                if not (self._assistant(content) or (index == last and is_allowed_end(content))):
                    return False
                if index == last and not content and self.pending:
                    return False
            elif role == "user":
                if previous == "assistant":
                    if self.ends_in_reasoning:
                        return False
                    takes_results = True
                elif previous != "user":
                    takes_results = False
                verdict = self._user(content, takes_results=takes_results)
                if verdict is None:
                    return False
                takes_results = verdict
            elif (
                role != "system"
                or previous == "assistant"
                or not _has_content(content)
                or self.pending
            ):
                return False
            previous = role
        return not self.pending

    def _assistant(self, content: object) -> bool:
        if isinstance(content, str):
            self.ends_in_reasoning = False
            return bool(content) and not content.isspace()
        if not isinstance(content, list | tuple) or not content:
            return False
        open_server: set[str] = set()
        kind = None
        for block in content:
            kind = block["type"] if type(block) is dict else get(block, "type")
            if kind == "text":
                if is_blank(block):
                    return False
            elif kind == "tool_use":
                call_id = get(block, "id")
                if (
                    type(call_id) is not str
                    or LEGAL_ID(call_id) is None
                    or call_id in self.used
                    or not _is_named_call(block)
                ):
                    return False
                self.used.add(call_id)
                self.pending.add(call_id)
            elif kind in SERVER_CALLS:
                call_id = get(block, "id")
                if type(call_id) is not str or not call_id.strip() or call_id in self.server:
                    return False
                if not _is_named_call(block):
                    return False
                self.server.add(call_id)
                open_server.add(call_id)
            elif kind == "tool_result":
                return False
            elif is_server_result(kind):
                open_server.remove(get(block, "tool_use_id"))
        self.ends_in_reasoning = kind in REASONING
        return not open_server

    def _user(self, content: object, *, takes_results: bool) -> bool | None:
        """Return whether further results may follow in this turn; None where something is wrong."""
        if isinstance(content, str):
            if self.pending or not content or content.isspace():
                return None
            return False
        if not isinstance(content, list | tuple) or not content:
            return None
        for block in content:
            kind = block["type"] if type(block) is dict else get(block, "type")
            if kind == "tool_result":
                if not takes_results:
                    return None
                self.pending.remove(get(block, "tool_use_id"))
            elif self.pending or is_server_result(kind):
                return None
            else:
                takes_results = False
                if kind == "text" and is_blank(block):
                    return None
        return takes_results


def _is_named_call(block: object) -> bool:
    name = get(block, "name")
    return (
        isinstance(name, str)
        and bool(name)
        and not name.isspace()
        and isinstance(get(block, "input"), Mapping)
    )


def _has_content(content: object) -> bool:
    if isinstance(content, str):
        return bool(content) and not content.isspace()
    if not isinstance(content, list | tuple) or not content:
        return False
    return not any(
        get(block, "type") in ("tool_result", "tool_use")
        or is_server_result(get(block, "type"))
        or (get(block, "type") == "text" and is_blank(block))
        for block in content
    )
