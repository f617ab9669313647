"""The fast check of Anthropic histories: one pass that stops at the first doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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

    def run(self, messages: Sequence[Any]) -> bool:
        pending = self.pending
        previous = None
        takes_results = False
        last = len(messages) - 1
        for index, message in enumerate(messages):
            if type(message) is dict:
                role = message["role"]
                content = message["content"]
            else:
                role = get(message, "role")
                content = get(message, "content")
            if role == "assistant":
                if previous != "assistant":
                    if pending:
                        return False
                    if self.server:
                        self.server.clear()
                if not (self._assistant(content) or (index == last and is_allowed_end(content))):
                    return False
                if index == last and not content and pending:
                    return False
            elif role == "user":
                if previous == "assistant":
                    if self.ends_in_reasoning:
                        return False
                    takes_results = True
                elif previous != "user":
                    takes_results = False
                verdict = self._user(content, takes_results)
                if verdict is None:
                    return False
                takes_results = verdict
            elif (
                role != "system" or previous == "assistant" or not _has_content(content) or pending
            ):
                return False
            previous = role
        return not pending

    def _assistant(self, content: object) -> bool:
        if type(content) is str:
            self.ends_in_reasoning = False
            return bool(content) and not content.isspace()
        if not content or not (type(content) is list or isinstance(content, list | tuple)):
            return False
        kind: Any = None
        open_server: set[str] | None = None
        for block in content:
            if type(block) is dict:
                kind = block["type"]
                if kind == "text":
                    text = block["text"]
                    if type(text) is str and text and not text.isspace():
                        continue
                if kind == "tool_use":
                    name = block["name"]
                    if type(block["input"]) is dict and type(name) is str and name.strip():
                        if not self._is_new(block["id"]):
                            return False
                        continue
            else:
                kind = get(block, "type")
            if kind == "tool_use":
                if not _is_named_call(block) or not self._is_new(get(block, "id")):
                    return False
            elif kind == "text":
                if is_blank(block):
                    return False
            elif kind == "tool_result":
                return False
            elif kind in SERVER_CALLS:
                call_id = get(block, "id")
                if type(call_id) is not str or not call_id.strip() or call_id in self.server:
                    return False
                if not _is_named_call(block):
                    return False
                self.server.add(call_id)
                open_server = open_server or set()
                open_server.add(call_id)
            elif is_server_result(kind):
                (open_server or set()).remove(get(block, "tool_use_id"))
        self.ends_in_reasoning = kind in REASONING
        return not open_server

    def _is_new(self, call_id: object) -> bool:
        """Note the id of a call, if it is one that may be used here."""
        if type(call_id) is not str or call_id in self.used or LEGAL_ID(call_id) is None:
            return False
        self.used.add(call_id)
        self.pending.add(call_id)
        return True

    def _user(self, content: object, takes_results: bool) -> bool | None:
        """Return whether further results may follow in this turn; None where something is wrong."""
        pending = self.pending
        if type(content) is str:
            return None if pending or not content or content.isspace() else False
        if not content or not (type(content) is list or isinstance(content, list | tuple)):
            return None
        for block in content:
            if type(block) is dict:
                kind = block["type"]
                if kind == "tool_result":
                    if not takes_results:
                        return None
                    pending.remove(block["tool_use_id"])
                    continue
                if kind == "text":
                    text = block["text"]
                    if type(text) is str and text and not text.isspace() and not pending:
                        takes_results = False
                        continue
            else:
                kind = get(block, "type")
            if kind == "tool_result":
                if not takes_results:
                    return None
                pending.remove(get(block, "tool_use_id"))
            elif pending or is_server_result(kind):
                return None
            else:
                takes_results = False
                if kind == "text" and is_blank(block):
                    return None
        return takes_results


def _is_named_call(block: Any) -> bool:
    name = get(block, "name")
    arguments = get(block, "input")
    return (
        type(name) is str
        and bool(name)
        and not name.isspace()
        and (type(arguments) is dict or isinstance(arguments, Mapping))
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
