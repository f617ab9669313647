"""What tests against real programs share: finding the programs, running them, sinks, applications."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.services import otlp_sink
from tests.services.collector import find_collector, plain_config, running_collector

EMITTER = Path(__file__).with_name("emitter.py")


@pytest.fixture(scope="session")
def collector_sink():
    """Where the collector sends everything on."""
    with otlp_sink.http_sink() as sink:
        yield sink


@pytest.fixture(scope="session")
def collector(collector_sink, tmp_path_factory):
    """A collector for the whole run; tests tell their telemetry apart by service name."""
    folder = tmp_path_factory.mktemp("collector")
    config = plain_config(collector_sink.url)
    with running_collector(find_collector(), config, folder) as running:
        yield running


@pytest.fixture
def http_sink():
    with otlp_sink.http_sink() as sink:
        yield sink


@pytest.fixture
def grpc_sink():
    with otlp_sink.grpc_sink() as sink:
        yield sink


class Ended(NamedTuple):
    """How an application went."""

    code: int
    stdout: str
    stderr: str
    report: dict
    seconds_to_exit: float


class Application:
    """The emitter, running."""

    def __init__(self, report, end="return", env=None, flush_first=False, count=1, **setup):
        self._report = report
        orders = {
            "setup": setup,
            "end": end,
            "report": str(report),
            "flush_first": flush_first,
            "count": count,
        }
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OTEL_") and not name.lower().endswith("_proxy")
        }
        self._process = subprocess.Popen(
            [sys.executable, str(EMITTER)],
            env={**inherited, "EMITTER": json.dumps(orders), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self._output = self._process.communicate()
        self._ended_at = time.monotonic()

    def wait(self, seconds=30.0):
        self._reader.join(seconds)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join(10)
            pytest.fail(f"the application was still running after {seconds:g} s")
        stdout, stderr = self._output
        assert self._report.exists(), stderr
        report = json.loads(self._report.read_text())
        # CLOCK_MONOTONIC is one clock for both processes.
        took = self._ended_at - report["done"]
        return Ended(self._process.returncode, stdout, stderr, report, took)

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()
        self._reader.join(10)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start an application; ``setup_telemetry``'s arguments are keywords of this function."""
    started = []

    def start(**orders):
        report = tmp_path_factory.mktemp("application") / "report.json"
        started.append(Application(report, **orders))
        return started[-1]

    yield start
    for application in started:
        application.stop()
