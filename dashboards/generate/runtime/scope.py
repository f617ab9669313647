"""The scope of *Tool runtime*: its address, its variables, and what narrows queries by them."""

from __future__ import annotations

from typing import Any

from dashboards.generate.promql import TOOL, series
from dashboards.generate.variables import BY_TOOL, OF_SERVICE, SOURCES, choice, services, sources
from toolmend.telemetry import names

UID = "toolmend-runtime"
KEPT = (*SOURCES, "job", "tool")
"""What a link to this board sets. What tools tell has no model and no provider."""

OF_TOOL = f"{OF_SERVICE},{BY_TOOL}"


def variables() -> list[Any]:
    """Return the variables, in the order in which they stand at the top."""
    executed = names.TOOL_CALLS_EXECUTED
    job, service = services(series(executed))
    return [
        *sources(),
        job,
        choice("tool", "Tool", series(executed, OF_SERVICE), TOOL),
        service,
    ]
