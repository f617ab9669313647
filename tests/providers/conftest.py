"""Fixtures of the tests that talk to the strict provider through real SDKs."""

from __future__ import annotations

from tests.unit.conftest import anyio_backend, telemetry

__all__ = ["anyio_backend", "telemetry"]
