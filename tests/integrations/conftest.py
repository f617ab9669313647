"""Fresh OpenTelemetry providers for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.telemetry_capture import Captured, captured

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def telemetry() -> Iterator[Captured]:
    with captured() as capture:
        yield capture
