"""The judge agrees with the verdict on the input of every recorded case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolmend.testing import assert_legal, problems

CASES = Path(__file__).parents[1] / "formats" / "cases"
JUDGED_OPTIONS = ("profile", "max_id_len", "strict_alternation")


def read_cases():
    for path in sorted(CASES.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case["input_verdict"] != "disputed":
            yield pytest.param(case, id=case["name"])


def is_on_server(request):
    """The same as `server_state` of a policy, read from the request."""
    names = ("previous_response_id", "conversation", "previous_interaction_id")
    is_thread = (request.get("thread") or {}).get("type") == "continue"
    return is_thread or any(request.get(name) for name in names)


def judged_options(case):
    """What the options of a case mean to the judge; the others are about the repair."""
    options = case.get("options", {})
    return {
        "allow_open_tail": options.get("trailing") == "leave",
        "allow_open": options.get("in_flight", ()),
        "allow_orphans": options.get("orphans") == "keep",
        "server_state": is_on_server(case.get("request", {})),
        **{name: options[name] for name in JUDGED_OPTIONS if name in options},
    }


@pytest.mark.parametrize("case", list(read_cases()))
def test_verdict_on_the_input(case):
    found = problems(case["input"], format=case["format"], **judged_options(case))
    assert ("illegal" if found else "legal") == case["input_verdict"], found


@pytest.mark.parametrize("case", list(read_cases()))
def test_the_format_is_recognised(case):
    """From the shape alone, wherever the input has something that tells."""
    plain = all(isinstance(entry.get("content"), str) for entry in case["input"])
    if case["input_verdict"] == "illegal" and not plain:
        with pytest.raises(AssertionError, match=f"^illegal {case['format']} history"):
            assert_legal(case["input"], **judged_options(case))


def test_the_cases_are_there():
    assert len(list(read_cases())) > 50
