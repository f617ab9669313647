"""`toolmend demo` as a process: on a pipe, on a terminal, with and without a collector."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.services import otlp_sink
from toolmend.cli.demo_export import parse_collector
from toolmend.telemetry import names

RUN = "import sys; {}; from toolmend.cli import main; main()"
NO_SDKS = "sys.modules['openai'] = sys.modules['anthropic'] = None"
ANY_ESCAPE = "\x1b"
COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-7]|9[0-7]|38;[\d;]+)m")


def environment(**extra):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TOOLMEND_", "FORCE_COLOR", "NO_COLOR", "TTY_"))
    }
    return {**kept, "COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color", **extra}


def demo(*arguments, before=NO_SDKS, **variables):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN.format(before), "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(**variables),
    )


@pytest.fixture(scope="module")
def piped():
    return demo("--fast", "--duration", "3")


def test_it_explains_itself_before_anything_else(piped):
    top = piped.stdout[: piped.stdout.index("healthy")]

    assert piped.returncode == 0
    assert "400  An assistant message with 'tool_calls' must be followed by" in top
    assert "200  The call got a result" in top
    assert "The model answers" in top


def test_every_mend_is_one_line(piped):
    line = re.compile(
        r"^(?:healthy|flaky|broken|recovery) +\w+ +[\w-]+ +\w+ +[a-z ]+(?:: \w+)? +"
        r"(?:patched|moved), accepted$",
        re.MULTILINE,
    )
    firsts = int(re.search(r"^all +\d+ +\d+ +\d+ +\d+ +(\d+)", piped.stdout, re.MULTILINE)[1])

    assert len([found for found in line.findall(piped.stdout) if "patched" in found]) == firsts > 0


def test_it_ends_with_the_tables_and_what_they_mean(piped):
    for title in ("per model", "per tool", "per thread", "per cause"):
        assert f"\n{title} " in piped.stdout
    assert "Mend the store, not only the request." in " ".join(piped.stdout.split())
    assert "Next: toolmend demo --otlp http://127.0.0.1:4318" in piped.stdout


def test_on_a_pipe_there_are_plain_lines_of_80_columns(piped):
    assert ANY_ESCAPE not in piped.stdout
    assert piped.stderr == ""
    assert [line for line in piped.stdout.splitlines() if len(line) > 80] == []
    assert [line for line in piped.stdout.splitlines() if line != line.rstrip()] == []


def test_the_same_seed_prints_the_same(piped):
    assert demo("--fast", "--duration", "3", "--seed", "1").stdout == piped.stdout
    assert demo("--fast", "--duration", "3", "--seed", "2").stdout != piped.stdout


def test_the_pace_changes_nothing(piped):
    began = time.monotonic()
    ended = demo("--duration", "3")

    assert ended.stdout == piped.stdout
    assert time.monotonic() - began > 3


def test_it_runs_on_the_sdks_where_they_are_installed(piped):
    openai = pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    ended = demo("--fast", "--duration", "3", before="pass")

    assert ended.returncode == 0
    assert f"openai {openai.__version__}" in ended.stdout
    tables = piped.stdout.index("per model")
    assert ended.stdout[ended.stdout.index("per model") :] == piped.stdout[tables:]


def test_a_terminal_that_knows_ascii_alone_is_enough(piped):
    assert demo("--fast", "--duration", "3", PYTHONIOENCODING="ascii").stdout == piped.stdout


@pytest.mark.parametrize(
    ("variable", "value"), [("TOOLMEND_DISABLED", "1"), ("TOOLMEND_MODE", "observe")]
)
def test_settings_that_switch_the_repair_off_are_named(variable, value):
    ended = demo("--fast", **{variable: value})

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"toolmend: the demo needs the repair; unset {variable}\n"


def on_a_terminal(*arguments, stop_at=None, **variables):
    """Run the demo on a terminal; return its exit code and all that it wrote."""
    pty = pytest.importorskip("pty", reason="a system without terminals")
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(NO_SDKS), "demo", *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env=environment(**variables),
        start_new_session=True,
    )
    os.close(side)
    written = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([main], [], [], 0.2)
            try:
                chunk = os.read(main, 65536) if ready else b""
            except OSError:  # the other side is closed
                break
            written += chunk
            if stop_at is not None and stop_at in written:
                process.send_signal(2)
                stop_at = None
            if ready and not chunk:
                break
        return process.wait(10), written.decode()
    finally:
        process.kill()
        process.wait()
        os.close(main)


def test_on_a_terminal_there_is_a_board_below_the_lines():
    code, written = on_a_terminal("--duration", "2")

    assert code == 0
    assert "this turn" in written
    assert "refused without toolmend" in written
    assert COLOUR.search(written)


def test_no_color_is_respected():
    code, written = on_a_terminal("--duration", "1", NO_COLOR="1")

    assert code == 0
    assert not COLOUR.search(written)


def test_a_dumb_terminal_gets_plain_lines():
    _, written = on_a_terminal("--fast", "--duration", "1", TERM="dumb")

    assert "this turn" not in written


def test_stopping_it_still_shows_what_it_came_to():
    code, written = on_a_terminal("--duration", "60", stop_at=b"1/48")

    assert code == 130
    assert "Stopped early" in written
    assert "per model" in written
    assert "Traceback" not in written


def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_dead_collector_neither_hangs_nor_spoils_it(piped):
    url = f"http://127.0.0.1:{closed_port()}"
    began = time.monotonic()
    ended = demo("--fast", "--duration", "3", "--otlp", url, before=f"{NO_SDKS}; {NO_WARNINGS}")

    assert time.monotonic() - began < 30
    assert (ended.returncode, ended.stderr) == (0, "")
    first, *_, last = ended.stdout.splitlines()
    assert first == f"Nothing answers at {url} yet; the demo goes on without it."
    assert last == f"The telemetry did not get to {url}: no collector took it."
    tables = slice(piped.stdout.index("per model"), piped.stdout.index("* "))
    assert piped.stdout[tables] in ended.stdout


# The exporters warn about themselves.
NO_WARNINGS = "import warnings; warnings.simplefilter('ignore')"


def test_everything_goes_to_the_collector():
    with otlp_sink.http_sink() as sink:
        ended = demo(
            *("--fast", "--duration", "3", "--otlp", sink.url), before=f"{NO_SDKS}; {NO_WARNINGS}"
        )
        found = sink.wait_for("toolmend-demo", "traces", "metrics", "logs")

    assert (ended.returncode, ended.stderr) == (0, "")
    told = " ".join(ended.stdout.split())
    assert told.endswith(f"Traces, metrics and logs went to {sink.url} as service toolmend-demo.")
    counted = {}
    for arrived in found["metrics"]:
        for point in arrived.item.sum.data_points:
            labels = frozenset((pair.key, pair.value.string_value) for pair in point.attributes)
            counted[arrived.item.name, labels] = point.as_int
    firsts = sum(
        value
        for (name, labels), value in counted.items()
        if name == names.TOOL_CALLS_DANGLING.name and (names.RECURRENCE, "first") in labels
    )
    requests = sum(v for (name, _), v in counted.items() if name == names.MODEL_CALLS.name)
    shown = re.search(r"^all +(\d+) +\d+ +\d+ +\d+ +(\d+)", ended.stdout, re.MULTILINE)
    assert (requests, firsts) == tuple(map(int, shown.groups()))
    spans = [arrived.item for arrived in found["traces"]]
    kinds = Counter(span.name.partition(" ")[0] for span in spans)
    assert kinds[names.SPAN_MODEL_CALL] == requests
    executed = sum(v for (name, _), v in counted.items() if name == names.TOOL_CALLS_EXECUTED.name)
    assert kinds[names.EXECUTE_TOOL] == executed > 0
    # A mended call leads to the span of the tool that left it open.
    tool_spans = {span.span_id for span in spans if span.name.startswith(names.EXECUTE_TOOL)}
    links = {link.span_id for span in spans for link in span.links}
    assert links
    assert links <= tool_spans


def test_without_the_exporters_it_names_the_extra():
    ended = demo(
        *("--otlp", "http://127.0.0.1:4318"),
        before="sys.modules['opentelemetry.sdk.resources'] = None",
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "toolmend: --otlp needs an extra: pip install 'toolmend[otlp]'\n"


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:4318", "127.0.0.1", 4318),
        ("https://otlp.example.com", "otlp.example.com", 443),
        ("http://[::1]:4318/base", "::1", 4318),
    ],
    ids=["plain", "default-port", "ipv6"],
)
def test_collector_addresses_are_read(url, host, port):
    collector = parse_collector(url)

    assert (collector.url, collector.host, collector.port) == (url, host, port)
