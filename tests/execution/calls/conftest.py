"""Fresh OpenTelemetry providers for each test, and nothing left behind by any call."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING

import pytest

from tests.unit.telemetry_capture import Captured, captured

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def telemetry() -> Iterator[Captured]:
    with captured() as capture:
        yield capture


@pytest.fixture
def nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail for exceptions and tasks that asyncio found nobody looking after."""
    gc.freeze()  # so that only what the test made is looked through
    yield
    gc.collect()
    complaints = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name in ("asyncio", "concurrent.futures") and record.levelno >= logging.ERROR
    ]
    assert not complaints
