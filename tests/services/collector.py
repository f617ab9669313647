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

_READY_SECONDS = 30.0
_STOP_SECONDS = 10.0

# The exporter neither queues nor retries: what a test has sent is either in the sink or lost.
_CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc_port}"}}
      http: {{endpoint: "127.0.0.1:{http_port}"}}
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


@contextmanager
def running_collector(binary, sink_url, folder):
    """Run ``binary`` with a pipeline from OTLP to ``sink_url``; ready when both ports answer."""
    folder = Path(folder)
    for attempt in range(3):
        # Somebody else may take a free port before the collector does; then it ends and we try again.
        grpc_port, http_port = _free_ports(2)
        config = folder / f"collector-{attempt}.yaml"
        config.write_text(
            _CONFIG.format(grpc_port=grpc_port, http_port=http_port, sink_url=sink_url)
        )
        log = folder / f"collector-{attempt}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [binary, "--config", f"file:{config}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            if _listens(process, (grpc_port, http_port)):
                yield Collector(
                    endpoints={
                        "grpc": f"http://127.0.0.1:{grpc_port}",
                        "http/protobuf": f"http://127.0.0.1:{http_port}",
                    },
                    process=process,
                )
                return
        finally:
            _stop(process)
    raise AssertionError(f"the collector did not start:\n{log.read_text()}")


def _free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


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


def _stop(process):
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_STOP_SECONDS)
