"""What all tests share: those that need a real program are skipped without it, or fail where it has to be there."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.dashboards.checkers import find_checkers
from tests.gateway.environment import find_litellm
from tests.services.collector import find_collector
from tests.services.prometheus import find_prometheus, find_promtool

_MANY = Path(__file__).parent / "property"
# A test marked @pytest.mark.service("otelcol") needs that program.
FINDERS = {
    "checkers": (find_checkers, ".ci/fetch-checkers brings them"),
    "litellm": (find_litellm, ".ci/build-litellm makes an environment with it"),
    "otelcol": (find_collector, ".ci/build-collector builds one"),
    "prometheus": (find_prometheus, ".ci/build-prometheus builds one"),
    "promtool": (find_promtool, ".ci/build-prometheus builds one"),
}


def pytest_configure():
    # A shell that runs the tests in the background has interrupts ignored, also by all processes that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    # What is there before the first test stays: no garbage collection has to look through ten thousand tests.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for marker in item.iter_markers("service"):
        for name in marker.args:
            find, how = FINDERS[name]
            if find() is None:
                message = f"no {name} found: {how}"
                if os.environ.get("TOOLMEND_REQUIRE_SERVICES") == "1":
                    pytest.fail(message, pytrace=False)
                pytest.skip(message)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    # Lines that only luck reaches are not covered by a test, and measuring doubles the time of many examples.
    module = sys.modules.get("coverage")  # some environments have none
    coverage = module.Coverage.current() if module else None
    if coverage is None or not (_MANY in item.path.parents or _is_random(item)):
        return (yield)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()


def _is_random(item):
    return getattr(getattr(item, "function", None), "is_hypothesis_test", False)
