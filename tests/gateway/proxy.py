"""A real LiteLLM proxy for the tests: a process on loopback, started with a config, stopped by itself."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.services.processes import free_ports, stop

ROOT = Path(__file__).parents[2]
_READY_SECONDS = 120.0
_STOP_SECONDS = 10.0


@dataclass
class Proxy:
    """A proxy that is starting or running, and what it was asked."""

    url: str
    key: str
    process: subprocess.Popen
    log: Path
    client: httpx.Client
    asked: int = 0

    def ask(self, path, body, **headers):
        """Send a request as any client does."""
        self.asked += 1
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(
            self.url + path, json=body, headers={"authorization": f"Bearer {self.key}", **named}
        )

    def wait_until_ready(self):
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                if self.client.get(self.url + "/health/liveliness").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)


@contextmanager
def starting_proxy(config, provider, **variables):
    """Start a proxy with the upstream of a strict provider; `wait_until_ready` before it is asked."""
    [port] = free_ports(1)
    key = "sk-" + secrets.token_hex(32)
    log = config.with_suffix(".log")
    inherited = {
        name: value
        for name, value in os.environ.items()
        # Without measuring coverage: it would slow down a start that takes long enough.
        if not name.startswith(("OTEL_", "COVERAGE_")) and not name.lower().endswith("_proxy")
    }
    environment = {
        **inherited,
        "PYTHONPATH": str(ROOT / "src"),
        "LITELLM_MASTER_KEY": key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_BASE": provider.openai_base_url,
        "OPENAI_API_KEY": "test",
        "ANTHROPIC_API_BASE": provider.anthropic_base_url,
        "ANTHROPIC_API_KEY": "test",
        **variables,
    }
    arguments = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("litellm")), *arguments],
            cwd=config.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            with httpx.Client(trust_env=False, timeout=60) as client:
                yield Proxy(f"http://127.0.0.1:{port}", key, process, log, client)
        finally:
            stop(process, _STOP_SECONDS)
