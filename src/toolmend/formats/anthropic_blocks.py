"""What Anthropic's content blocks are, as far as both the fast check and the reader have to know."""

from __future__ import annotations

import re
from typing import Final

from toolmend.formats.fields import get

LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
SERVER_CALLS: Final = frozenset(("server_tool_use", "mcp_tool_use"))
REASONING: Final = frozenset(("thinking", "redacted_thinking"))


def is_server_result(kind: object) -> bool:
    """Tell whether a block answers a call that the provider ran."""
    return isinstance(kind, str) and kind.endswith("_tool_result") and kind != "tool_result"


def is_blank(block: object) -> bool:
    """Tell whether a text block holds nothing."""
    text = get(block, "text")
    return text is None or (isinstance(text, str) and (not text or text.isspace()))


def is_allowed_end(content: object) -> bool:
    """Tell whether the content is one that only the last assistant message may have."""
    if isinstance(content, str):
        return not content or content.isspace()
    return isinstance(content, list | tuple) and not content
