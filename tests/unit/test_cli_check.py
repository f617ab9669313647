"""The command check: what it says, and how it ends."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.histories import assistant, clean, dangling, tool, user
from toolmend import Policy, PolicyError
from toolmend.cli import history_options
from toolmend.cli.app import run

SECRET = "sesame"


@pytest.fixture
def toolmend(monkeypatch, capfd):
    """Run a command in this process; returns exit code, standard output and standard error."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["toolmend", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = run()
        except SystemExit as ended:
            code = ended.code
        captured = capfd.readouterr()
        return code, captured.out.splitlines(), captured.err.splitlines()

    return call


def lines_of(*values) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def test_legal_histories_end_well(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of(clean(), {"model": "m", "messages": clean()}, {"input": "hi"}))

    assert toolmend("check", file) == (
        0,
        [
            f"{file}:1: legal (openai-chat, 4 messages)",
            f"{file}:2: legal (openai-chat, 4 messages)",
            f"{file}:3: legal (no list of messages)",
            "3 histories: 3 legal, 0 broken",
        ],
        [],
    )


def test_broken_histories_are_told_finding_by_finding(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    other = tmp_path / "b.json"
    file.write_text(lines_of(clean(), [user(), assistant("c1", "c2"), tool("c2"), tool("c9")]))
    other.write_text(json.dumps(dangling(), indent=2))

    assert toolmend("check", file, other) == (
        1,
        [
            f"{file}:1: legal (openai-chat, 4 messages)",
            f"{file}:2: messages[1] dangling_call tool=search id=c1 cause=partial_batch",
            f"{file}:2: messages[3] orphan_result id=c9",
            f"{other}:1: messages[1] dangling_call tool=search id=c1 cause=interrupted",
            "3 histories: 1 legal, 2 broken (2 dangling_call, 1 orphan_result)",
        ],
        [],
    )


@pytest.mark.parametrize(
    ("content", "what", "line"),
    [
        (b"", "empty", ""),
        (b'[{"role": ]', "invalid JSON at column 11", ":1"),
        (b'{\n "messages": [\n  1,\n  oops]}', "invalid JSON at column 3", ":4"),
        (b'[]\n\n{"a": 1}\n', "no history", ":3"),
        (b'[]\n["\xe9"]\n', "not UTF-8", ":2"),
        ("[]".encode("utf-16"), "UTF-16", ""),
        (b'[{"role": "assistant", "tool_calls": 1}]', "make it a list", ":1"),
        (b"[" * 100_000, "nested too deep", ":1"),
    ],
    ids=["empty", "json", "spread", "body", "bytes", "utf16", "malformed", "deep"],
)
def test_what_cannot_be_read_is_one_line(toolmend, tmp_path, content, what, line):
    file = tmp_path / "a.json"
    file.write_bytes(content)

    code, _, errors = toolmend("check", file)

    [error] = errors
    assert code == 1
    assert error.startswith(f"toolmend: {file}{line}: ")
    assert what in error
    assert "; " in error


def test_files_that_are_none_do_not_stop_the_others(toolmend, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(clean()))

    code, lines, errors = toolmend("check", tmp_path / "no.json", tmp_path, file)

    assert code == 1
    assert errors == [
        f"toolmend: {tmp_path / 'no.json'}: no such file; check the name",
        f"toolmend: {tmp_path}: a folder; name the files in it",
    ]
    assert lines[-1] == "3 histories: 1 legal, 0 broken, 2 not read"


def test_a_file_that_may_not_be_opened_says_so(toolmend, tmp_path):
    link = tmp_path / "loop"
    link.symlink_to(link)

    code, _, [error] = toolmend("check", link)

    assert code == 1
    assert "cannot be opened" in error


def test_standard_input_is_a_file(toolmend):
    code, lines, _ = toolmend("check", "-", stdin=lines_of(dangling()).encode())

    assert code == 1
    assert lines[0].startswith("<stdin>:1: messages[1] dangling_call")


def test_standard_input_may_be_closed():
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command_line("check", "-")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == "toolmend: <stdin>: closed; name a file\n"


def test_json_gives_one_object_per_history(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of(clean(), dangling(), {}))

    code, lines, errors = toolmend("check", file, "--json")
    first, second, third = map(json.loads, lines)

    assert (code, len(errors)) == (1, 1)
    zero = dict.fromkeys(
        ("patched", "dropped", "moved", "orphan_results_removed", "duplicates_removed"), 0
    )
    assert first == {
        "file": str(file),
        "line": 1,
        "format": "openai-chat",
        "legal": True,
        "findings": [],
        "counts": zero,
    }
    assert second["findings"] == [
        {
            "index": 1,
            "kind": "dangling_call",
            "action": "patched",
            "tool_name": "search",
            "call_id": "c1",
            "cause": "interrupted",
            "detail": "",
        }
    ]
    assert second["counts"] == {**zero, "patched": 1}
    assert (third["line"], third["legal"], third["format"]) == (3, False, None)
    assert "no history" in third["error"]


def test_explain_goes_call_by_call_and_tells_the_answer(toolmend, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps([user(), assistant("c1", "c2"), tool("c2"), tool("c9"), user()]))

    code, lines, errors = toolmend("check", file, "--explain")

    assert (code, errors) == (1, [])
    assert lines == [
        f"{file}:1: broken (openai-chat, 5 messages)",
        "  turn 1, messages[1]: search c1: no result",
        "    dangling_call: the call has no result; other calls of its batch have results",
        "    a repair puts a placeholder result in, so that the model knows that the outcome is "
        "unknown",
        "  turn 1, messages[1]: search c2: result in messages[2]",
        "  messages[3]: c9",
        "    orphan_result: the result belongs to no call",
        "    a repair takes it out, because the provider refuses it there",
        "  a provider answers 400: An assistant message with 'tool_calls' must be followed by tool "
        "messages responding to each 'tool_call_id'. The following tool_call_ids did not have "
        "response messages: c1",
        "1 history: 0 legal, 1 broken (1 dangling_call, 1 orphan_result)",
    ]


def test_explain_has_no_answer_for_a_legal_history(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of([user(), assistant("c1")], [], [user(), assistant("", tool="")]))

    code, lines, _ = toolmend("check", file, "--explain", "--trailing", "leave")

    assert code == 1
    first, last = " ".join(lines[:4]), "\n".join(lines[5:])
    assert "legal" in first
    assert "pending_call" in first
    assert "a repair leaves it" in first
    assert "answers" not in first
    assert "(no tool) (no id)" in last
    assert "answers" in last


def test_explain_knows_what_the_host_asks(toolmend, tmp_path):
    file = tmp_path / "a.json"
    long_id = "c" * 50
    file.write_text(json.dumps([user(), assistant(long_id), tool(long_id)]))

    assert toolmend("check", file)[0] == 0
    code, lines, _ = toolmend("check", file, "--explain", "--max-id-len", "40")

    assert code == 1
    assert "malformed_id" in lines[2]
    assert lines[-2].startswith("  a provider answers 400: ")
    assert "40" in lines[-2]


@pytest.mark.parametrize("option", [(), ("--explain",), ("--json",)], ids=str)
@pytest.mark.parametrize("format", ["openai-chat", "anthropic"])
def test_content_is_never_shown(toolmend, tmp_path, option, format):
    file = tmp_path / "a.jsonl"
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": SECRET}}
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": SECRET}
    chat = [user(SECRET), {"role": "assistant", "content": SECRET, "tool_calls": [call, call]}]
    blocks = [user(SECRET), {"role": "assistant", "content": [block, SECRET]}]
    file.write_text(
        lines_of(
            [*chat, tool("c1", SECRET), tool("c1", SECRET), tool("c3", SECRET), user(SECRET)],
            [user(SECRET), {"role": "assistant", "content": [block]}],
            blocks,
            {"messages": SECRET + SECRET, SECRET: SECRET},
            {"role": SECRET},
            [{"type": "human", "data": {SECRET: SECRET}}],
            [{"role": "assistant", "content": 7, SECRET: SECRET}],
        )
        + f"{SECRET}\n"
    )

    _, lines, errors = toolmend("check", file, *option, "--format", format)

    assert SECRET not in "\n".join([*lines, *errors])


def test_names_move_nothing_on_a_terminal(toolmend, tmp_path):
    file = tmp_path / "a.json"
    history = [user(), assistant("c1\n\x1b[2J", tool="x" * 1000)]
    file.write_text(json.dumps(history))

    code, lines, _ = toolmend("check", file)

    assert code == 1
    assert "id=c1\\n\\x1b[2J " in lines[0]
    assert len(lines[0]) < 500


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--trailing", "nope"], "--trailing"),
        (["--format", "nope"], "no format 'nope'; use one of anthropic, "),
        (["--placeholder", "{nope}"], "{nope}"),
        (["--placeholder", " "], "placeholder must not be empty"),
        (["--explain", "--json"], "use one of them"),
        (["--nope"], "--nope"),
        ([], "Missing argument"),
    ],
    ids=["choice", "format", "template", "blank", "both", "option", "files"],
)
@pytest.mark.parametrize("command", ["check", "repair"])
def test_wrong_usage_is_one_line(toolmend, command, options, words):
    if command == "repair" and "--json" in options:
        words = "--explain"  # no option of it
    file = ["-"] if options else []

    code, lines, [error] = toolmend(command, *file, *options)

    assert (code, lines) == (2, [])
    assert error.startswith("toolmend: ")
    assert words in error


@pytest.mark.parametrize(
    ("options", "is_legal"),
    [
        ([], False),
        (["--trailing", "leave"], True),
        (["--trailing", "patch"], False),
        (["--format", "openai-chat"], False),
    ],
    ids=str,
)
def test_options_reach_the_policy(toolmend, tmp_path, options, is_legal):
    file = tmp_path / "a.json"
    file.write_text(json.dumps([user(), assistant("c1")]))

    assert toolmend("check", file, *options)[0] == (0 if is_legal else 1)


@pytest.mark.parametrize(
    ("options", "is_legal"),
    [([], True), (["--server-state"], True), (["--no-server-state"], False)],
    ids=str,
)
def test_the_request_tells_of_server_state_unless_an_option_does(
    toolmend, tmp_path, options, is_legal
):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"previous_response_id": "r", "messages": [tool("c9"), user()]}))

    assert toolmend("check", file, *options)[0] == (0 if is_legal else 1)


ALL = ("trailing", "dangling", "server_state", "language", "placeholder")
LATER = ("profile", "max_id_len", "window", "strict_alternation")


@pytest.mark.parametrize("known", [ALL, (*ALL, *LATER), ("window",)], ids=len)
def test_an_option_is_offered_and_passed_when_the_policy_has_its_field(monkeypatch, known):
    seen = []
    given = []
    monkeypatch.setattr(history_options, "Policy", lambda **fields: given.append(fields) or "made")
    command = history_options.with_policy(lambda *, policy, files=(): seen.append(policy), known)

    command(files=[], **{name: 3 for name in known if name == "window"})

    offered = set(inspect.signature(command).parameters) - {"files"}
    assert offered == set(known)
    assert seen == ["made"]
    assert given == [{"window": 3} if "window" in known else {}]


def test_a_policy_that_cannot_work_is_wrong_usage(monkeypatch, capsys):
    def refuse(**_):
        raise PolicyError("profile must be one of 'x'; got 'y'")

    monkeypatch.setattr(history_options, "Policy", refuse)

    with pytest.raises(SystemExit) as ended:
        history_options.make_policy({"profile": "y"})
    assert ended.value.code == 2
    assert capsys.readouterr().err == "toolmend: profile must be one of 'x'; got 'y'\n"


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_policy_that_cannot_work_for_a_history_is_wrong_usage(toolmend, monkeypatch, command):
    from toolmend._histories import look

    def refuse(*_):
        raise PolicyError("no such profile for it; leave it out")

    monkeypatch.setattr(look, "judge", refuse)

    code, _, errors = toolmend(command, "-", stdin=b"[]")

    assert (code, errors) == (2, ["toolmend: no such profile for it; leave it out"])


def test_every_option_of_this_policy_works():
    chosen = dict.fromkeys(history_options.POLICY_FIELDS & {*ALL, *LATER})

    assert history_options.make_policy(chosen) == Policy()


def test_a_fault_of_toolmend_itself_stops_no_other_line(toolmend, tmp_path, monkeypatch):
    from toolmend._histories import look

    real = look.judge

    def judge(text, policy, format=None):
        if SECRET in text:
            raise ZeroDivisionError(SECRET)
        return real(text, policy, format)

    monkeypatch.setattr(look, "judge", judge)
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of([user(SECRET)], clean()))

    code, lines, [error] = toolmend("check", file)

    assert code == 1
    assert lines[-1] == "2 histories: 1 legal, 0 broken, 1 not read"
    assert error.endswith(":1: toolmend failed at this (ZeroDivisionError); please report it")


def command_line(*arguments, before="pass"):
    code = f"import sys; {before}; from toolmend.cli import main; main()"
    return [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]


@pytest.mark.parametrize("command", ["check", "repair"])
def test_a_closed_pipe_ends_quietly(tmp_path, command):
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of([user("x" * 1000)]) * 5_000)

    with subprocess.Popen(
        command_line(command, file), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (141, b"")


def test_an_interrupt_ends_it(tmp_path):
    with subprocess.Popen(
        command_line("check", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(lines_of(*[clean()] * 400).encode())
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130


BAR_AT_ONCE = "from toolmend.cli import history_screen; history_screen._PATIENCE_SECONDS = 0.0"


def run_on_terminal(command, stdin=None, **popen):
    """Run a command whose standard error is a terminal, and return what it wrote there."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        stdin=stdin,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        **popen,
    ) as process:
        os.close(theirs)
        shown = b""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how a terminal that is gone ends
                break
            if not data:
                break
            shown += data
    os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.parametrize("has_size", [True, False], ids=["file", "pipe"])
def test_long_input_has_a_bar_on_a_terminal_alone(tmp_path, has_size):
    file = tmp_path / "a.jsonl"
    file.write_text("oops\n" + lines_of([user("x" * 1000)]) * 4_000)
    out = tmp_path / "out"
    source = "-"
    feed = None
    if has_size:
        source = file
    else:
        feed = subprocess.Popen(["cat", file], stdout=subprocess.PIPE)

    with out.open("wb") as stdout:
        code, shown = run_on_terminal(
            command_line("repair", source, before=BAR_AT_ONCE),
            stdin=feed.stdout if feed else None,
            stdout=stdout,
        )
    if feed:
        feed.stdout.close()
        feed.wait()

    assert code == 1
    assert out.read_bytes() == file.read_bytes()
    assert "MB" in shown
    assert "4001 histories: 4000 legal" in shown


def test_short_input_has_no_bar(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(lines_of(clean()))

    code, shown = run_on_terminal(command_line("repair", file), stdout=subprocess.DEVNULL)

    assert (code, shown) == (0, "toolmend: 1 history: 1 legal, 0 mended\r\n")


MEASURED = """
import sys
from toolmend.cli.app import run
try:
    run()
except SystemExit:
    pass
with open("/proc/self/status") as status:
    [peak] = [line.split()[1] for line in status if line.startswith("VmHWM")]
print(peak, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize("arguments", [["check"], ["repair"], ["repair", "--in-place"]], ids=str)
def test_memory_does_not_grow_with_the_file(tmp_path, arguments):
    """The peak of one process, which ``getrusage`` mixes with the peak of the process that started it."""
    peaks = {}
    for megabytes in (1, 30):
        file = tmp_path / f"{megabytes}.jsonl"
        block = lines_of(*[[user("x" * 20_000), *clean()]] * 45, dangling())
        file.write_text(block * (megabytes * 1_000_000 // len(block)))
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *arguments, file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=True,
        )
        peaks[megabytes] = int(done.stderr.split()[-1])

    assert peaks[30] - peaks[1] < 10_000  # kB
