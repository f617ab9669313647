"""Fixtures of the tests of integrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import toolmend
from tests.integrations.sdks.wire import Wire
from tests.unit.conftest import anyio_backend, telemetry
from toolmend.settings import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["anyio_backend", "telemetry"]


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def instrument() -> Iterator[Callable[..., None]]:
    """Instrument; whatever the test did, nothing is instrumented after it."""
    yield toolmend.instrument
    toolmend.uninstrument()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set variables as an operator does before the start."""

    def set_(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()

    yield set_
    settings.cache_clear()
