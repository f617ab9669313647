"""The scope of *Tool-call health*: its address, its variables, and what narrows queries by them."""

from __future__ import annotations

from typing import Any

from dashboards.generate.promql import MODEL, PROVIDER, TOOL, series
from dashboards.generate.variables import BY_TOOL, OF_SERVICE, SOURCES, choice, services, sources
from toolmend.telemetry import names

UID = "toolmend-health"
KEPT = (*SOURCES, "job", "provider", "model", "tool")
"""What a link to this board sets."""

_OF_PROVIDER = f'{OF_SERVICE},{PROVIDER}=~"$provider"'
OF_MODEL = f'{_OF_PROVIDER},{MODEL}=~"$model"'
OF_TOOL = f"{OF_MODEL},{BY_TOOL}"


def variables() -> list[Any]:
    """Return the variables, in the order in which they stand at the top."""
    calls = names.MODEL_CALLS
    job, service = services(series(calls))
    return [
        *sources(),
        job,
        choice("provider", "Provider", series(calls, OF_SERVICE), PROVIDER),
        choice("model", "Model", series(calls, _OF_PROVIDER), MODEL),
        choice("tool", "Tool", series(names.TOOL_CALLS_REQUESTED, OF_MODEL), TOOL),
        service,
    ]
