"""For tests: would a provider take this history, and a provider that refuses what is illegal."""

from __future__ import annotations

from toolmend.testing.legality import assert_legal, problems
from toolmend.testing.provider import StrictProvider
from toolmend.testing.replies import Reply, ToolCall
from toolmend.testing.strict import Problem

__all__ = ["Problem", "Reply", "StrictProvider", "ToolCall", "assert_legal", "problems"]
