"""Fields: in which unit a value is shown, where it turns red, and what is set for one field alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, Threshold, ThresholdsMode

if TYPE_CHECKING:
    from collections.abc import Mapping

PERCENT = "percentunit"
SECONDS = "s"
PER_SECOND = "reqps"
COUNT = "short"
TIMES = "suffix: ×"  # noqa: RUF001 - the sign


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a value turns orange and red; None where it never does."""

    orange: float | None = None
    red: float | None = None

    def build(self) -> dashboard_builders.ThresholdsConfig:
        """Return the thresholds in the SDK's terms."""
        steps = [Threshold(color="green", value=None)]
        steps += [
            Threshold(color=color, value=value)
            for color, value in (("orange", self.orange), ("red", self.red))
            if value is not None
        ]
        return dashboard_builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def properties(values: Mapping[str, object]) -> list[DynamicConfigValue]:
    """Return settings in the SDK's terms, by their ids."""
    return [DynamicConfigValue(id_val=name, value=value) for name, value in values.items()]
