"""The command repair: what it writes, and what it leaves alone."""

from __future__ import annotations

import codecs
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.histories import assistant, clean, dangling, user
from toolmend import repair
from toolmend._histories.replacement import Replacement
from toolmend.cli.app import run

LEGAL = (
    b'{"custom_id": "x",  "body":{"n":1.0,"big":123456789012345678901, "messages": [ ]}, "e":1e400}'
)
BROKEN = json.dumps(dangling()).encode()
MENDED = json.dumps(list(repair(dangling()).messages)).encode()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def toolmend(monkeypatch, capfdbinary):
    """Run a command in this process; returns exit code, standard output and lines of standard error."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["toolmend", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = run()
        except SystemExit as ended:
            code = ended.code
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode().splitlines()

    return call


@pytest.mark.parametrize(
    ("data", "expected", "summary"),
    [
        (BROKEN, MENDED, "1 history: 0 legal, 1 mended (1 dangling_call)"),
        (LEGAL + b"\r\n", LEGAL + b"\r\n", "1 history: 1 legal, 0 mended"),
        (
            codecs.BOM_UTF8 + LEGAL + b"\n\n" + BROKEN + b" \r\n" + LEGAL,
            codecs.BOM_UTF8 + LEGAL + b"\n\n" + MENDED + b" \r\n" + LEGAL,
            "3 histories: 2 legal, 1 mended (1 dangling_call)",
        ),
        (
            codecs.BOM_UTF8 + BROKEN,
            codecs.BOM_UTF8 + MENDED,
            "1 history: 0 legal, 1 mended (1 dangling_call)",
        ),
    ],
    ids=["one", "legal", "lines", "mark"],
)
def test_it_writes_the_mended_histories(toolmend, data, expected, summary):
    assert toolmend("repair", "-", stdin=data) == (0, expected, [f"toolmend: {summary}"])
    assert toolmend("repair", "-", stdin=expected)[:2] == (0, expected)


def test_what_cannot_be_handled_is_passed_on_and_named(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join([BROKEN, b'["\xe9"]', b"{", b'{"a": 1}', BROKEN, b""]))

    code, out, errors = toolmend("repair", file)

    assert code == 1
    assert out == b"\n".join([MENDED, b'["\xe9"]', b"{", b'{"a": 1}', MENDED, b""])
    starts = [f"toolmend: {file}:{line}: " for line in (2, 3, 4)]
    assert all(error.startswith(start) for error, start in zip(errors, starts, strict=False))
    assert errors[3:] == [
        "toolmend: 5 histories: 0 legal, 2 mended (2 dangling_call), 3 passed on as they were"
    ]


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", "[]\n[]".encode("utf-16"), b"\x1f\x8b\x08\nab\ncd", b'{"a":\n 1,\n\n'],
    ids=["empty", "blank", "utf16", "gzip", "cut"],
)
def test_a_file_that_cannot_be_read_is_passed_on(toolmend, data):
    code, out, errors = toolmend("repair", "-", stdin=data)

    assert (code, out) == (1, data)
    assert len(errors) == 2


def test_several_files_are_written_one_after_the_other(toolmend, tmp_path):
    for name, data in (("a", BROKEN), ("b", b""), ("c", LEGAL + b"\n"), ("d", LEGAL)):
        (tmp_path / name).write_bytes(data)

    code, out, _ = toolmend("repair", *(tmp_path / name for name in "abcd"), tmp_path / "no")

    assert code == 1
    assert out == MENDED + b"\n" + LEGAL + b"\n" + LEGAL


def test_output_goes_to_a_file(toolmend, tmp_path):
    file, target = tmp_path / "a.json", tmp_path / "b.json"
    file.write_bytes(BROKEN)

    code, out, _ = toolmend("repair", file, "-o", target)

    assert (code, out) == (0, b"")
    assert target.read_bytes() == MENDED
    assert file.read_bytes() == BROKEN
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


def test_output_may_be_a_device(toolmend, tmp_path):
    file = tmp_path / "a.json"
    file.write_bytes(BROKEN)

    assert toolmend("repair", file, "--output", os.devnull)[0] == 0
    assert not Path(os.devnull).is_file()


def test_in_place_replaces_the_file_and_keeps_its_mode(toolmend, tmp_path):
    file, link = tmp_path / "a.jsonl", tmp_path / "link"
    file.write_bytes(BROKEN + b"\n" + LEGAL + b"\noops\n")
    file.chmod(0o640)
    link.symlink_to(file)

    code, out, _ = toolmend("repair", "--in-place", link)

    assert (code, out) == (1, b"")
    assert file.read_bytes() == MENDED + b"\n" + LEGAL + b"\noops\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert names_in(tmp_path) == ["a.jsonl", "link"]


def test_in_place_does_not_touch_what_needs_nothing(toolmend, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(LEGAL + b"\n")
    before = file.stat()

    assert toolmend("repair", "-i", file)[0] == 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_in_place_goes_on_behind_files_that_are_none(toolmend, tmp_path):
    file = tmp_path / "a.json"
    file.write_bytes(BROKEN)

    code, _, errors = toolmend(
        "repair", "-i", tmp_path / "no", tmp_path / "no" / "no", tmp_path, file
    )

    assert code == 1
    assert file.read_bytes() == MENDED
    assert [error.split(": ", 2)[2].split(";")[0] for error in errors[:3]] == [
        "no such file",
        "cannot be replaced (No such file or directory)",
        "no regular file",
    ]


@pytest.mark.parametrize(
    ("stop", "code"),
    [("KeyboardInterrupt()", 130), ("OSError(28, 'No space left on device')", 1)],
    ids=["interrupt", "full"],
)
@pytest.mark.parametrize("options", [["--in-place"], ["--output", "new.jsonl"]], ids=str)
def test_stopped_halfway_it_leaves_everything_as_it_was(tmp_path, options, stop, code):
    file = tmp_path / "a.jsonl"
    file.write_bytes((BROKEN + b"\n") * 3)
    before = (
        "import toolmend.cli.repair\n"
        "module = sys.modules['toolmend.cli.repair']\n"
        "real, seen = module.mend, []\n"
        "def mend(*arguments):\n"
        "    seen.append(1)\n"
        f"    if len(seen) == 3: raise {stop}\n"
        "    return real(*arguments)\n"
        "module.mend = mend"
    )
    script = f"import sys\n{before}\nfrom toolmend.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script, "repair", "a.jsonl", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert ("No space left on device" in done.stderr) == (code == 1)
    assert file.read_bytes() == (BROKEN + b"\n") * 3
    assert names_in(tmp_path) == ["a.jsonl"]


def test_a_replacement_that_is_not_committed_leaves_nothing(tmp_path):
    file = tmp_path / "a"
    file.write_text("old")

    with Replacement(file) as replacement:
        replacement.write(b"new")
        assert file.read_text() == "old"
    assert names_in(tmp_path) == ["a"]
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-i", "-"], "--in-place needs files"),
        (["-i", "-o", "b", "a"], "exclude each other"),
        (["a", "-o", "a"], "--output names an input"),
        (["a", "--report", "a"], "--report names an input"),
        (["a", "-o", "."], "--output names a folder"),
        (["a", "-o", "no/b"], "make the folder first"),
        (["a", "-o", "b", "--report", "b"], "name one file"),
        (["a", "--json"], "--json"),
    ],
    ids=str,
)
def test_wrong_usage_touches_nothing(toolmend, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(BROKEN)

    code, out, [error] = toolmend("repair", *arguments)

    assert (code, out) == (2, b"")
    assert words in error
    assert (tmp_path / "a").read_bytes() == BROKEN
    assert names_in(tmp_path) == ["a"]


def test_a_report_has_one_object_per_history(toolmend, tmp_path):
    report = tmp_path / "report.jsonl"

    code, _, _ = toolmend("repair", "-", "--report", report, stdin=BROKEN + b"\noops\n" + LEGAL)

    records = [json.loads(line) for line in report.read_text().splitlines()]
    assert code == 1
    assert [record["legal"] for record in records] == [False, False, True]
    assert [record["counts"].get("patched") for record in records] == [1, None, 0]
    assert "invalid JSON" in records[1]["error"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--placeholder", "no {tool_name}: {call_id}"], "no search: c1"),
        (["--language", "zh"], "未知"),
        (["--dangling", "drop"], '"next"'),
    ],
    ids=["placeholder", "language", "drop"],
)
def test_options_reach_the_policy(toolmend, options, text):
    code, out, _ = toolmend("repair", "-", *options, stdin=BROKEN)

    assert code == 0
    assert text in out.decode()
    assert ("tool_calls" in out.decode()) == ("drop" not in options)


def test_the_rest_of_a_body_stays_in_its_order(toolmend):
    body = {
        "custom_id": "x",
        "body": {"z": "é", "model": "m", "messages": dangling(), "a": [1.5]},
        "b": None,
    }
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    _, out, _ = toolmend("repair", "-", stdin=data)

    body["body"]["messages"] = list(repair(dangling()).messages)
    assert out == json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def test_a_repair_that_leaves_it_broken_is_not_written(toolmend, monkeypatch):
    from toolmend._histories import judged

    monkeypatch.setattr(judged, "with_messages", lambda *_: json.dumps(dangling()))

    code, out, errors = toolmend("repair", "-", stdin=BROKEN)

    assert (code, out) == (1, BROKEN)
    assert "fault of toolmend" in errors[0]


def test_one_long_line_works(toolmend):
    history = [user("x" * 30_000_000), assistant("c1"), *clean()]

    code, out, _ = toolmend("repair", "-", stdin=json.dumps(history).encode())

    assert code == 0
    assert len(json.loads(out)) == len(history) + 1
