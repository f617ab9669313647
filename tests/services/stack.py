"""The compose stack as far as it runs without containers: its collector and its Prometheus, with its own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tests.services import otlp_sink
from tests.services.collector import find_collector, running_collector
from tests.services.past import write_past
from tests.services.prometheus import (
    backfill,
    backfill_rules,
    find_promtool,
    running_prometheus,
)

ROOT = Path(__file__).parents[2]
RULES = ROOT / "dashboards/rules/toolmend.rules.yml"
COLLECTOR_CONFIG = ROOT / "dashboards/stack/collector.yaml"
PROMETHEUS_CONFIG = ROOT / "dashboards/stack/prometheus.yml"
TROUBLED = Path(__file__).with_name("troubled.py")
COMPOSE = ROOT / "docker-compose.yml"

VERSION = "1.2.3"
"""The service.version of every application."""


@dataclass(frozen=True)
class Stack:
    """The running programs, and what Tempo and Loki would have got.

    Attributes:
        prometheus: the real one.
        traces: what was sent to Tempo.
        logs: what was sent to Loki.
        endpoint: where applications send to.
        began: the Unix time when it was ready.
        ended: the Unix time when its last application had ended.
        past_ended: the Unix time of the last sample that Prometheus was given before.
        demo: what the demo printed.
    """

    prometheus: object
    traces: otlp_sink.Sink
    logs: otlp_sink.Sink
    endpoint: str
    began: float
    ended: float = 0
    past_ended: float = 0
    demo: str = ""

    def run(self, script):
        """Run an application to its end; it is told where to send to."""
        return _run(str(script), self.endpoint)

    def eventually(self, expr, seconds=20.0, accept=bool):
        """Return what an expression finds once it is accepted; else fail with what it is."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.prometheus.query(expr)
            if accept(found):
                return found
            assert time.monotonic() < deadline, f"{expr} is {found} after {seconds:g} s"
            time.sleep(0.25)


@contextmanager
def running_demo(folder):
    """Give Prometheus a past, start all, and run the demo and the troubled application to their ends."""
    past = folder / "past.txt"
    start, end = write_past(past, time.time())
    backfill(find_promtool(), past, folder / "data")
    backfill_rules(find_promtool(), RULES, folder, start=start + 30 * 60, end=end)
    with running_stack(folder) as stack:
        printed = _run("-m", "toolmend", *_demo(stack.endpoint))
        assert "went to" in printed, printed[-500:]
        stack.run(TROUBLED)
        yield replace(stack, demo=printed, ended=time.time(), past_ended=end)


@contextmanager
def running_stack(folder):
    """Start a Prometheus on whatever the folder holds for it, and a collector that sends to it."""
    with (
        otlp_sink.http_sink() as traces,
        otlp_sink.http_sink() as logs,
        running_prometheus(folder, config=_config(folder), flags=_flags()) as prometheus,
    ):
        backends = {
            "TEMPO_OTLP_URL": traces.url,
            "LOKI_OTLP_URL": logs.url,
            "PROMETHEUS_OTLP_URL": f"{prometheus.url}/api/v1/otlp",
            "COLLECTOR_LOG_LEVEL": "warn",
        }
        with running_collector(find_collector(), COLLECTOR_CONFIG, folder, backends) as collector:
            yield Stack(
                prometheus=prometheus,
                traces=traces,
                logs=logs,
                endpoint=collector.endpoints["http/protobuf"],
                began=time.time(),
            )


def _flags():
    """Return the flags that the compose file gives Prometheus, apart from paths."""
    command = yaml.safe_load(COMPOSE.read_text())["services"]["prometheus"]["command"]
    return [flag for flag in command if "=/" not in flag]


def _config(folder):
    """Return the stack's own configuration; only the rules are elsewhere, and in a hurry."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            for pause in ("for", "keep_firing_for"):
                rule.pop(pause, None)
    hurried = folder / "hurried.rules.yml"
    hurried.write_text(json.dumps(rules))
    config = yaml.safe_load(PROMETHEUS_CONFIG.read_text())
    config["rule_files"] = [str(hurried)]
    file = folder / "prometheus.json"
    file.write_text(json.dumps(config))
    return file


def _demo(endpoint):
    return "demo", "--otlp", endpoint, "--duration", "10", "--seed", "3"


def _run(*arguments):
    ended = subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "OTEL_RESOURCE_ATTRIBUTES": f"service.version={VERSION}",
            "COLUMNS": "100",
            "PYTHONPATH": str(ROOT),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
