"""The judge agrees with the verdict on the input of every recorded case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolmend.testing import problems

CASES = Path(__file__).parents[1] / "formats" / "cases"
# These are illegal only for hosts that the options of the case name.
LEGAL_WITHOUT_OPTIONS = {"an_results_in_two_user_messages", "oc_id_too_long"}


def read_cases():
    for path in sorted(CASES.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case["format"] not in ("openai-chat", "anthropic", "langchain"):
            continue
        is_on_server = case.get("request", {}).get("thread", {}).get("type") == "continue"
        if case["input_verdict"] != "disputed" and not is_on_server:
            yield pytest.param(case, id=case["name"])


@pytest.mark.parametrize("case", list(read_cases()))
def test_verdict_on_the_input(case):
    options = case.get("options", {})
    found = problems(
        case["input"],
        format=case["format"],
        allow_open_tail=options.get("trailing") == "leave",
        allow_open=options.get("in_flight", ()),
        allow_orphans=options.get("orphans") == "keep",
    )
    expected = case["input_verdict"]
    if case["name"] in LEGAL_WITHOUT_OPTIONS:
        expected = "legal"
    assert ("illegal" if found else "legal") == expected, found


def test_the_cases_are_there():
    assert len(list(read_cases())) > 50
