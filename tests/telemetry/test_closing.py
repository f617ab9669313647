"""Providers are flushed and shut down together, and nobody waits for one that hangs."""

from __future__ import annotations

import threading

import pytest

from toolmend.telemetry.closing import Closing


class FakeProvider:
    """A provider whose flush and shutdown do what the test says."""

    def __init__(self, work=lambda: True) -> None:
        self._work = work
        self.shutdowns = 0

    def force_flush(self, timeout_millis=30_000):
        return self._work()

    def shutdown(self):
        self.shutdowns += 1
        self._work()


def fail():
    raise RuntimeError("exporter")


@pytest.mark.parametrize(
    ("works", "flushed", "shut_down"),
    [
        pytest.param([], True, True, id="no provider"),
        pytest.param([lambda: True] * 3, True, True, id="all well"),
        pytest.param([lambda: True, lambda: False], False, True, id="a flush not done"),
        pytest.param([lambda: True, fail], False, False, id="one raises"),
    ],
)
def test_outcome(works, flushed, shut_down):
    closing = Closing([FakeProvider(work) for work in works])
    assert closing.force_flush(10) is flushed
    assert closing.shutdown(10) is shut_down


def test_all_run_at_the_same_time():
    all_here = threading.Barrier(3, timeout=10)
    closing = Closing([FakeProvider(all_here.wait) for _ in range(3)])
    assert closing.shutdown(10) is True


def test_one_that_hangs_is_left_behind_and_the_others_are_not():
    release = threading.Event()
    hanging, well = FakeProvider(lambda: release.wait(60)), FakeProvider()
    closing = Closing([hanging, well])
    try:
        assert closing.shutdown(0.2) is False
        assert well.shutdowns == 1
        assert not release.is_set()
    finally:
        release.set()


def test_a_shutdown_happens_once_and_ends_flushing():
    provider = FakeProvider()
    closing = Closing([provider])
    assert (closing.shutdown(10), closing.shutdown(10)) == (True, True)
    assert provider.shutdowns == 1
    assert closing.force_flush(10) is False
