"""A real Prometheus for tests and benchmarks: found, started on loopback, asked, filled with a past, stopped by its process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.processes import free_ports, stop

_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ANSWER_SECONDS = 600.0
_FILL_SECONDS = 1800.0
_PIECE_SECONDS = 6 * 3600
_BLOCK = "26h"  # large enough that a few days are a few blocks; promtool rounds it down to a range it likes

_FLAGS = (
    "--storage.tsdb.retention.time=100y",  # a past that was filled in stays
    "--no-storage.tsdb.allow-overlapping-compaction",  # nothing is rewritten behind our back
    "--query.timeout=10m",
    "--log.level=warn",
)

# The variables name proxies for the world outside; ours listens on loopback.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find_prometheus():
    """Return the path of a Prometheus 3, or None: the variable, the PATH, then what .ci has built."""
    return _find("prometheus", "TOOLMEND_PROMETHEUS")


def find_promtool():
    """Return the path of a promtool 3, or None: the variable, the PATH, then what .ci has built."""
    return _find("promtool", "TOOLMEND_PROMTOOL")


@dataclass(frozen=True)
class Prometheus:
    """A running server: where it listens, and its answers as plain values."""

    url: str
    process: subprocess.Popen
    log: Path

    def query(self, expr, at=None):
        """Evaluate ``expr`` at one moment (a Unix time, else now): a list of (labels, value)."""
        params = {"query": expr} if at is None else {"query": expr, "time": _seconds(at)}
        data = self.post("/api/v1/query", **params)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        assert data["resultType"] == "vector", f"{expr!r} is a {data['resultType']}"
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    def query_range(self, expr, start, end, step):
        """Evaluate ``expr`` over a span of Unix times: a list of (labels, [(time, value), …])."""
        data = self.post(
            "/api/v1/query_range",
            query=expr,
            start=_seconds(start),
            end=_seconds(end),
            step=_seconds(step),
        )
        return [
            (each["metric"], [(float(when), float(value)) for when, value in each["values"]])
            for each in data["result"]
        ]

    def exemplars(self, selector, start, end):
        """Return the exemplars of a span of Unix times, as Prometheus tells them."""
        return self.get(
            "/api/v1/query_exemplars", query=selector, start=_seconds(start), end=_seconds(end)
        )

    def rules(self):
        """Return every rule it has loaded, group by group, as Prometheus tells them."""
        return [
            {**rule, "group": group["name"], "interval": group["interval"]}
            for group in self.get("/api/v1/rules")["groups"]
            for rule in group["rules"]
        ]

    def get(self, path, **params):
        """Return the ``data`` of an API answer; an error is raised with Prometheus' own words."""
        question = f"?{urllib.parse.urlencode(params, doseq=True)}" if params else ""
        return self._answer(self._request(f"{path}{question}"), params)

    def post(self, path, **params):
        """Return the same as :meth:`get`, for questions too long for an address."""
        body = urllib.parse.urlencode(params, doseq=True).encode()
        return self._answer(self._request(path, body), params)

    def _request(self, path, body=None):
        return urllib.request.Request(f"{self.url}{path}", data=body)  # noqa: S310

    def _answer(self, request, params):
        try:
            with _DIRECT.open(request, timeout=_ANSWER_SECONDS) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
        try:
            text = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            pass
        raise RuntimeError(f"Prometheus refused {params}: {text}")


@contextmanager
def running_prometheus(folder, *, config="", flags=(), binary=None):
    """Run a Prometheus on 127.0.0.1 that keeps its data in ``folder``/data; ready when it says so.

    ``config`` is a file (a ``Path``) or the text of one.
    """
    binary = binary or find_prometheus()
    assert binary, "no Prometheus 3 found"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(config, Path):
        text, config = config, folder / "prometheus.yml"
        config.write_text(text or "{}\n")
    log = folder / "prometheus.log"
    for _ in range(3):
        # Somebody else may take a free port before Prometheus does; then it ends and we try again.
        [port] = free_ports(1)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                    *_FLAGS,
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            if _is_ready(process, url):
                yield Prometheus(url=url, process=process, log=log)
                return
        finally:
            stop(process, _STOP_SECONDS)
    raise AssertionError(f"Prometheus did not start:\n{log.read_text()}")


def backfill(promtool, openmetrics_file, data_folder):
    """Turn a file of samples with timestamps (OpenMetrics, ``# EOF`` at its end) into blocks of a stopped Prometheus."""
    _run(
        [
            promtool,
            *("tsdb", "create-blocks-from", f"--max-block-duration={_BLOCK}"),
            *("openmetrics", "--quiet", str(openmetrics_file), str(data_folder)),
        ]
    )


def backfill_rules(promtool, rules_file, folder, *, start, end, wanted=None, since=None):
    """Write what the recording rules of a file would have recorded, into the data of ``folder``.

    Rules that read recorded series go into a later pass, and each pass meets a server that was
    started anew and has loaded the blocks of the passes before. Every rule is evaluated at
    ``start`` and then at its own interval; promtool's ``create-blocks-from rules`` would shift each
    group by some seconds of its own, so that no rule saw the newest sample of another. ``wanted``
    names the records to fill in, with all they are made of; without it every one is. ``since`` names
    records that are needed from a later moment on only, which saves time.
    """
    folder = Path(folder)
    for number, level in enumerate(_levels(_recording_rules(folder, rules_file), wanted)):
        recorded = folder / f"recorded-{number}.txt"
        with running_prometheus(folder) as server, recorded.open("w") as out:
            for rule in level:
                _record(server, rule, (since or {}).get(rule["name"], start), end, out)
            out.write("# EOF\n")
        backfill(promtool, recorded, folder / "data")
        recorded.unlink()


def _record(server, rule, start, end, out):
    out.write(f"# TYPE {rule['name']} gauge\n")
    step = int(rule["interval"])
    parts = []
    while start <= end:
        until = min(end, start + _PIECE_SECONDS // step * step - step)
        parts.append(server.query_range(rule["query"], start, until, step))
        start = until + step
    # OpenMetrics wants the samples of one series together.
    found = {}
    for part in parts:
        for labels, samples in part:
            named = {**labels, **(rule.get("labels") or {}), "__name__": ""}
            found.setdefault(tuple(sorted(named.items())), []).extend(samples)
    for labels, samples in found.items():
        inside = ",".join(f"{key}={json.dumps(value)}" for key, value in labels if value)
        head = f"{rule['name']}{{{inside}}}"
        out.writelines(f"{head} {value!r} {_seconds(when)}\n" for when, value in samples)


def _recording_rules(folder, rules_file):
    """Let Prometheus read the file; nothing here knows YAML."""
    config = json.dumps({"rule_files": [str(Path(rules_file).resolve())]})
    with running_prometheus(Path(folder) / "reading", config=config) as server:
        return [rule for rule in server.rules() if rule["type"] == "recording"]


def _levels(rules, wanted):
    """Sort recording rules so that each level reads only records of the levels before."""
    names = {rule["name"] for rule in rules}
    needs = {
        rule["name"]: names & set(re.findall(r"[a-zA-Z_:][\w:]*", rule["query"])) for rule in rules
    }
    if wanted is not None:
        kept = set(wanted)
        while more := {need for name in kept for need in needs[name]} - kept:
            kept |= more
        needs = {name: others for name, others in needs.items() if name in kept}
    while needs:
        ready = {name for name, others in needs.items() if not others & set(needs)}
        assert ready, f"these records need each other: {sorted(needs)}"
        yield [rule for rule in rules if rule["name"] in ready]
        needs = {name: others for name, others in needs.items() if name not in ready}


def _find(name, variable):
    if named := os.environ.get(variable):
        return named if os.access(named, os.X_OK) else None
    if (found := shutil.which(name)) and _is_third(found):
        return found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolmend"
    built = [path for path in cache.glob(f"prometheus-*/{name}") if os.access(path, os.X_OK)]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else None


def _is_third(binary):
    """Distributions still ship Prometheus 2, whose ranges and OTLP receiver are not ours."""
    try:
        told = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return False
    return re.search(r"\bversion 3\.", told.stdout + told.stderr) is not None


def _run(command):
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_FILL_SECONDS,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed:\n{ended.stdout}\n{ended.stderr}")


def _is_ready(process, url):
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _says_ready(url):
            # Another server may have had the port first; then ours has ended by now or will at once.
            return process.poll() is None
        time.sleep(0.05)
    return False


def _says_ready(url):
    try:
        with _DIRECT.open(f"{url}/-/ready", timeout=5):
            return True
    except OSError:
        return False


def _seconds(value):
    return f"{float(value):.3f}".rstrip("0").rstrip(".")
