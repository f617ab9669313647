"""Ended: what a guarded call ended in, a value or an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolmend.execution import texts
from toolmend.execution.failures import ToolCallFailed
from toolmend.execution.results import text_of_result
from toolmend.telemetry.names import FallbackKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended.

    Attributes:
        value: what the tool, or its fallback, returned.
        error: what is raised in place of a value; None when there is one.
        fallback: what answered in place of the tool.
        tool_name: name of the tool.
    """

    value: Any = None
    error: ToolCallFailed | None = None
    fallback: FallbackKind | None = None
    tool_name: str = ""

    def unwrap(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value

    def text(self, max_chars: int) -> str:
        """Return what the model gets."""
        if self.error is not None:
            return self.error.text_for_model
        text = text_of_result(self.value, max_chars)
        return texts.degraded(text, self.tool_name) if self.fallback == "default" else text
