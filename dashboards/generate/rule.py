"""One rule: a record's name, an alert, and how an alert tells its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboards.generate.promql import JOB
from toolmend.telemetry.names import prometheus_name

if TYPE_CHECKING:
    from toolmend.telemetry.names import Metric

JOB_NAME = f"{{{{ $labels.{JOB} }}}}"
SHARE = "{{ $value | humanizePercentage }}"
COUNTED = '{{ $value | printf "%.0f" }}'


def record(level: str, metric: Metric, rest: str) -> str:
    """Return the name of a record: for whom, of which counter, and what is done with it.

    Args:
        level: what it is recorded by, as `job`.
        metric: what it is made of.
        rest: what becomes of it, as `:increase15m`.
    """
    return f"{level}:{prometheus_name(metric).removesuffix('_total')}{rest}"


def alert(
    name: str,
    expr: str,
    *,
    severity: str,
    summary: str,
    description: str,
    hold: str = "",
    keep: str = "",
) -> dict[str, Any]:
    """Return an alert, with the address of its heading in the runbook.

    Args:
        name: what it is called, without the library's name before it.
        expr: what is the case while it fires.
        severity: `page` or `ticket`.
        summary: what is wrong, with the service and the value.
        description: what to look at first.
        hold: for how long it must be so.
        keep: for how long it fires on.
    """
    alert = f"Toolmend{name}"
    rule: dict[str, Any] = {"alert": alert, "expr": expr}
    if hold:
        rule["for"] = hold
    if keep:
        rule["keep_firing_for"] = keep
    rule["labels"] = {"severity": severity}
    rule["annotations"] = {
        "summary": summary,
        "description": description,
        "runbook": f"RUNBOOK.md#{alert.lower()}",
    }
    return rule
