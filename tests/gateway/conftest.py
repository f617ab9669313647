"""What needs LiteLLM is collected where it is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from tests.unit.telemetry_capture import captured

# Else LiteLLM fetches a list of prices when it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
collect_ignore = [] if find_spec("litellm") else ["test_callback.py", "test_proxy.py"]


@pytest.fixture
def telemetry():
    with captured() as capture:
        yield capture
