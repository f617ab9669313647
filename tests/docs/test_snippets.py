"""Every snippet and every command that the documentation shows is run."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolmend.testing import StrictProvider

ROOT = Path(__file__).parents[2]
FOREIGN = ("OTEL_", "COVERAGE_")
"""Variables of the tests' own surroundings, by how they begin."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


SNIPPETS = [
    Snippet(page.name, number, language, text)
    for page in PAGES
    for number, (language, text) in enumerate(BLOCK.findall(page.read_text("utf-8")), 1)
]


@pytest.mark.parametrize(
    "snippet", [snippet for snippet in SNIPPETS if snippet.language == "python"], ids=str
)
def test_python_snippet_runs_as_it_stands(snippet: Snippet, tmp_path: Path) -> None:
    """In a process of its own; the SDKs' own variables point to the strict provider."""
    script = tmp_path / "snippet.py"
    script.write_text(snippet.text, "utf-8")
    with StrictProvider() as provider:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)},
            "OPENAI_BASE_URL": provider.openai_base_url,
            "OPENAI_API_KEY": "test",
            "ANTHROPIC_BASE_URL": provider.anthropic_base_url,
            "ANTHROPIC_API_KEY": "test",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert provider.rejected == 0


def test_the_shown_run_of_the_demo_is_what_the_demo_prints() -> None:
    """The same seed and length, without the pacing."""
    [shown] = [
        snippet.text
        for snippet in SNIPPETS
        if snippet.language == "text" and snippet.text.startswith("$ toolmend demo")
    ]
    done = subprocess.run(
        [sys.executable, "-m", "toolmend", "demo", "--fast"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "80"},
    )
    printed = done.stdout.splitlines()
    for line in shown.splitlines()[1:]:
        assert line in printed or line.strip() == "...", line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


COMMANDS = [
    command
    for snippet in SNIPPETS
    for line in snippet.text.splitlines()
    if snippet.language == "sh" or line.startswith("$ ")
    if (command := line.removeprefix("$ ").split("#")[0].strip())
]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_shown_command_is_one_that_works(command: str) -> None:
    """Make targets and extras are looked up; commands of ours are run with their help."""
    words = command.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    elif words[:2] == ["pip", "install"]:
        [extras] = re.findall(r"^'?toolmend(?:\[([\w,]+)\])?'?$", words[2])
        known = (ROOT / "pyproject.toml").read_text("utf-8")
        for extra in filter(None, extras.split(",")):
            assert re.search(rf"^{extra} = \[", known, re.MULTILINE)
    elif words[0] == "opentelemetry-instrument":
        # Run for real in tests/integrations.
        assert Path(sys.executable).with_name(words[0]).exists()
        assert words[1:] == ["python", "app.py"]
    else:
        assert words[0] == "toolmend", command
        subcommand = itertools.takewhile(re.compile(r"[a-z][a-z-]*").fullmatch, words[1:])
        done = subprocess.run(
            [sys.executable, "-m", "toolmend", *subcommand, "--help"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        for option in (word for word in words if word.startswith("--")):
            assert option in done.stdout
