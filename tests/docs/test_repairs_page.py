"""The page of repairs is as the code makes it, and tells what happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import toolmend
from docs.generate import CAUSES, FOUND_IN, MEANINGS, repairs_page
from tests.formats.case_files import load
from tests.property.outline import FORMATS
from tests.property.promises import mend
from tests.property.strategies import seeded
from toolmend.mending.findings import ALL_CAUSES, KINDS

ROOT = Path(__file__).parents[2]


def test_the_page_is_as_the_code_makes_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"run `make docs`: {done.stdout}{done.stderr}"


def test_every_kind_and_cause_is_explained() -> None:
    assert tuple(MEANINGS) == KINDS
    assert set(FOUND_IN) == set(KINDS)
    assert set(CAUSES) == set(ALL_CAUSES)
    assert all(f"| `{kind}` |" in repairs_page() for kind in KINDS)


def test_what_is_found_is_what_the_page_says() -> None:
    """In the recorded failures, and in damaged histories until all has been found."""
    found: set[tuple[str, str]] = set()

    def note(outcome: toolmend.Repair) -> None:
        for finding in outcome.findings:
            found.add((finding.kind, outcome.format))
            assert outcome.format in FOUND_IN[finding.kind], (finding.kind, outcome.format)
            if finding.action != "observed":
                assert finding.action in MEANINGS[finding.kind][1]

    for case in load(*FORMATS):
        if case.kind != "observed":
            note(toolmend.repair(case.messages(), case.format, case.policy()))
    said = {(kind, name) for kind, formats in FOUND_IN.items() for name in formats}
    said -= {("unknown_role", "langchain")}  # its objects have no other roles
    for wire in FORMATS:
        for seed in range(3_000):
            if {pair for pair in said if pair[1] == wire} <= found:
                break
            note(mend(seeded(seed, wire, with_policy=bool(seed % 2))))
    assert said - found == set()
