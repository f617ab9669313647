"""Beside other instrumentations of the same SDKs: both work in either order, and nothing is counted or drawn twice."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import pytest


class Neighbour(NamedTuple):
    """Another instrumentation.

    Attributes:
        module: where its instrumentor is.
        kind: the class of that.
        client: the client that it instruments.
        goes: whether its spans end when it is uninstrumented.
        same_method: whether it wraps the method that we do, and puts it back as it found it: without our
            wrapper, when that came later.
    """

    module: str
    kind: str
    client: str
    goes: bool = True
    same_method: bool = False


NEIGHBOURS = {
    "genai-openai": Neighbour(
        "opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor", "OpenAI"
    ),
    "openinference-openai": Neighbour(
        "openinference.instrumentation.openai", "OpenAIInstrumentor", "OpenAI", same_method=True
    ),
    "openinference-openai-async": Neighbour(
        "openinference.instrumentation.openai",
        "OpenAIInstrumentor",
        "AsyncOpenAI",
        same_method=True,
    ),
    "openinference-anthropic": Neighbour(
        "openinference.instrumentation.anthropic", "AnthropicInstrumentor", "Anthropic"
    ),
    "traceloop-openai": Neighbour(
        "opentelemetry.instrumentation.openai", "OpenAIInstrumentor", "OpenAI", goes=False
    ),
    "traceloop-anthropic": Neighbour(
        "opentelemetry.instrumentation.anthropic", "AnthropicInstrumentor", "Anthropic"
    ),
}


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


ORDERS = ("ours-first", "ours-last")


@pytest.fixture(scope="module")
def phases_of() -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """Run all applications whose instrumentation is there."""
    cases = [
        (name, order)
        for name, neighbour in NEIGHBOURS.items()
        for order in ORDERS
        if is_there(neighbour.module)
    ]
    if not cases:
        return {}
    told = [[*NEIGHBOURS[name][:3], order] for name, order in cases]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integrations.sdks.neighbour_app", json.dumps(told)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert all(found), ran.stderr
    return dict(zip(cases, found, strict=True))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours(name: str, order: str, phases_of: dict[Any, dict[str, Any]]) -> None:
    neighbour = NEIGHBOURS[name]
    if not is_there(neighbour.module):
        # Where it has to be there, its absence is a failure: see .ci/environments.
        assert os.environ.get("TOOLMEND_ENVIRONMENT") != "neighbours"
        pytest.skip(f"{neighbour.module} is in another environment")
    phases = dict(phases_of[name, order])
    without = phases.pop("without")
    assert without["statuses"] == [400, 400]
    for phase, seen in phases.items():
        is_ours_on = phase != "ours-off"
        are_they_on = phase not in ("theirs-off", "ours-again") or not neighbour.goes
        assert seen["statuses"] == ([200, 200] if is_ours_on else [400, 400]), phase
        assert seen["model_calls"] == (2 if is_ours_on else 0), phase
        assert seen["dangling"] == (2 if is_ours_on else 0), phase
        assert seen["ours"] == ["toolmend.model_call"] * (2 if is_ours_on else 0), phase
        # One span of theirs for each call, whoever stands outside.
        assert len(seen["theirs"]) == (2 if are_they_on else 0), phase
    both = phases["both"]
    if neighbour.same_method and order == "ours-last":
        # Around the same method: what they record is what is sent.
        assert both["theirs_inside"] == [True, True]
        assert both["they_saw_the_repair"] == [True, True]
