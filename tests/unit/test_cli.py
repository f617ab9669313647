"""The command toolmend: its shell, apart from what the commands do."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest


def toolmend(*arguments, before="pass"):
    code = f"import sys; {before}; from toolmend.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_prints_its_version():
    ended = toolmend("--version")

    assert (ended.returncode, ended.stdout) == (0, f"toolmend {version('toolmend')}\n")


def test_without_arguments_it_prints_its_help():
    ended = toolmend()

    assert ended.returncode == 2
    assert "Usage: " in ended.stdout
    assert "demo" in ended.stdout
    assert "completion" not in ended.stdout
    assert ended.stderr == ""


@pytest.mark.parametrize("command", [[], ["demo"]], ids=["toolmend", "demo"])
def test_help_is_no_failure(command):
    ended = toolmend(*command, "--help")

    assert ended.returncode == 0
    assert "Usage: " in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "nope"),
        (["--nope"], "--nope"),
        (["demo", "--duration", "soon"], "--duration"),
        (["demo", "--duration", "-1"], "--duration"),
        (["demo", "more"], "more"),
        (["demo", "--otlp", "collector"], "http://127.0.0.1:4318"),
        (["demo", "--otlp", "http://host:port"], "http://127.0.0.1:4318"),
        (["demo", "--otlp", "ftp://host"], "http://127.0.0.1:4318"),
    ],
    ids=["command", "option", "number", "range", "extra", "no-url", "bad-port", "bad-scheme"],
)
def test_wrong_usage_is_one_line(arguments, message):
    ended = toolmend(*arguments)

    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("toolmend: ")
    assert message in line


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_it_says_how_to_get_it(missing):
    ended = toolmend("demo", before=f"sys.modules['{missing}'] = None")

    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert "pip install 'toolmend[cli]'" in line


def test_importing_the_package_does_not_import_the_screen():
    # rich itself may be there: structlog looks for it.
    code = "import sys, toolmend, toolmend.cli; print({'typer', 'rich.live'} & set(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "set()\n"
