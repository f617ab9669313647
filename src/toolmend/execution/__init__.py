"""Guarded tools: calls that always end in one result, and remember why it was none of the tool's own."""

from __future__ import annotations

from toolmend.errors import MissingExtraError

try:
    import jsonschema_rs  # noqa: F401 - asked for here, so that one error names the extra
    import pydantic  # noqa: F401
    import tenacity  # noqa: F401
except ImportError as error:  # pragma: no cover - only in an environment without the extra
    raise MissingExtraError("toolmend.tool_call", "tools") from error

from toolmend.execution.breaker import Breaker, CircuitBreaker
from toolmend.execution.context import ToolContext, tool_context
from toolmend.execution.decorator import breaker_of, tool_call
from toolmend.execution.failures import Failure, ToolCallFailed
from toolmend.execution.fallback import Escalation, Fallback
from toolmend.execution.retry import Retry
from toolmend.execution.tools import Tools

__all__ = [
    "Breaker",
    "CircuitBreaker",
    "Escalation",
    "Failure",
    "Fallback",
    "Retry",
    "ToolCallFailed",
    "ToolContext",
    "Tools",
    "breaker_of",
    "tool_call",
    "tool_context",
]
