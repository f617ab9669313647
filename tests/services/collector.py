"""A real OpenTelemetry Collector for the tests: found, started on loopback, stopped by its process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.processes import free_ports, stop

_READY_SECONDS = 30.0
_STOP_SECONDS = 10.0

# The exporter neither queues nor retries: what a test has sent is either in the sink or lost.
_CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "${{env:OTLP_GRPC_ADDRESS}}"}}
      http: {{endpoint: "${{env:OTLP_HTTP_ADDRESS}}"}}
processors:
  memory_limiter: {{check_interval: 1s, limit_mib: 256}}
  batch: {{timeout: 50ms}}
exporters:
  otlp_http:
    endpoint: "{sink_url}"
    compression: gzip
    sending_queue: {{enabled: false}}
    retry_on_failure: {{enabled: false}}
service:
  telemetry:
    logs: {{level: warn}}
    metrics: {{level: none}}
  pipelines:
    traces: &pipeline
      receivers: [otlp]
      processors: [memory_limiter, batch]
      exporters: [otlp_http]
    metrics: *pipeline
    logs: *pipeline
"""


@dataclass(frozen=True)
class Collector:
    """Where a running collector listens, by OTLP protocol."""

    endpoints: dict[str, str]
    process: subprocess.Popen


def find_collector():
    """Return the path of a collector, or None: the variable, the PATH, then what .ci has built."""
    if named := os.environ.get("TOOLMEND_OTELCOL"):
        return named if os.access(named, os.X_OK) else None
    for name in ("otelcol-toolmend", "otelcol"):
        if found := shutil.which(name):
            return found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolmend"
    built = [path for path in cache.glob("otelcol-*/otelcol-toolmend") if os.access(path, os.X_OK)]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else None


def plain_config(sink_url):
    """Return a pipeline from OTLP to one sink, where what was sent is either there or lost."""
    return _CONFIG.format(sink_url=sink_url)


@contextmanager
def running_collector(binary, config, folder, env=None):
    """Run ``binary`` with a configuration; ready when both ports answer.

    ``config`` is a file (a ``Path``) or the text of one, and takes where to listen from the variables
    ``OTLP_GRPC_ADDRESS`` and ``OTLP_HTTP_ADDRESS``; ``env`` has the other variables that it needs.
    """
    folder = Path(folder)
    if not isinstance(config, Path):
        text, config = config, folder / "collector.yaml"
        config.write_text(text)
    for attempt in range(3):
        # Somebody else may take a free port before the collector does; then it ends and we try again.
        ports = grpc_port, http_port = free_ports(2)
        log = folder / f"collector-{attempt}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [binary, "--config", f"file:{config}"],
                env={
                    **os.environ,
                    "OTLP_GRPC_ADDRESS": f"127.0.0.1:{grpc_port}",
                    "OTLP_HTTP_ADDRESS": f"127.0.0.1:{http_port}",
                    **(env or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            if _listens(process, ports):
                yield Collector(
                    endpoints={
                        "grpc": f"http://127.0.0.1:{grpc_port}",
                        "http/protobuf": f"http://127.0.0.1:{http_port}",
                    },
                    process=process,
                )
                return
        finally:
            stop(process, _STOP_SECONDS)
    raise AssertionError(f"the collector did not start:\n{log.read_text()}")


def _listens(process, ports):
    deadline = time.monotonic() + _READY_SECONDS
    waiting = list(ports)
    while waiting and time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", waiting[0])) == 0:
                waiting.pop(0)
            else:
                time.sleep(0.05)
    return not waiting and process.poll() is None
