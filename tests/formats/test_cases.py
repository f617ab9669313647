"""Every recorded failure is repaired as its file says."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

import toolmend
from tests.formats.case_files import SHIPPED, Case, load, normalised, sketch
from toolmend.testing import assert_legal

CASES = [case for case in load("openai-chat", "anthropic", "langchain") if case.is_supported()]


def _ids(format: str, messages: list[Any]) -> set[str]:
    return set(re.findall(r"(?<=:)[^,}!]+", " ".join(sketch(format, messages))))


def _findings(findings: tuple[toolmend.Finding, ...], *, actions: bool = True) -> list[list[Any]]:
    rows = []
    for finding in findings:
        row: list[Any] = [finding.kind, finding.action if actions else "", finding.call_id]
        if finding.kind in ("dangling_call", "pending_call", "unanswerable_call"):
            row.append(finding.cause)
        rows.append(row)
    return rows


def _same_findings(
    found: tuple[toolmend.Finding, ...], wanted: list[list[Any]], *, actions: bool = True
) -> bool:
    rows = _findings(found, actions=actions)
    for want in wanted:
        row = list(want)
        if not actions:
            row[1] = ""
        match = next(
            (
                have
                for have in rows
                if have[:2] == row[:2]
                and (row[2] is None or have[2] == row[2])
                and have[3:] == row[3:]
            ),
            None,
        )
        if match is None:
            return False
        rows.remove(match)
    return not rows


def _counts(wanted: dict[str, Any]) -> dict[str, int]:
    return {**wanted["repairs"], **wanted["extra"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_is_repaired_as_recorded(case: Case) -> None:
    messages = case.messages()
    before = copy.deepcopy(messages)
    policy = case.policy()
    outcome = toolmend.repair(messages, format=case.format, policy=policy)
    assert messages == before
    if case.kind in ("clean", "observed"):
        assert outcome.messages is messages
        assert outcome.changed is False
        assert outcome.edits == ()
        wanted = case.results()[0]
        assert dict(outcome.counts) == _counts(wanted)
        assert _same_findings(outcome.findings, wanted["findings"]), outcome.findings
        checked = toolmend.check(messages, format=case.format, policy=policy)
        assert _same_findings(checked, wanted["findings"], actions=case.kind != "observed")
        return
    assert outcome.changed is True
    assert_legal(
        outcome.messages,
        format=case.format,
        allow_open_tail=case.options.get("trailing") == "leave",
        allow_open=frozenset(case.options.get("in_flight", ())),
        allow_orphans=case.options.get("orphans") == "keep",
    )
    placeholders = SHIPPED | frozenset(case.options.get("placeholder_texts", ()))
    made = normalised(
        sketch(case.format, list(outcome.messages), placeholders),
        _ids(case.format, list(outcome.messages)) - _ids(case.format, messages),
    )
    matching = [want for want in case.results() if normalised(want["sequence"]) == made]
    assert matching, made
    wanted = matching[0]
    assert dict(outcome.counts) == _counts(wanted)
    assert _same_findings(outcome.findings, wanted["findings"]), outcome.findings
    assert toolmend.check(messages, format=case.format, policy=policy) == outcome.findings
    again = toolmend.repair(outcome.messages, format=case.format, policy=policy)
    assert again.messages is outcome.messages
    assert not again.changed


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind == "broken"], ids=lambda case: case.name
)
def test_edits_applied_from_the_end_give_the_mended_history(case: Case) -> None:
    messages = case.messages()
    outcome = toolmend.repair(messages, format=case.format, policy=case.policy())
    rebuilt = list(messages)
    for edit in reversed(outcome.edits):
        if edit.operation == "insert":
            rebuilt.insert(edit.index, edit.message)
        elif edit.operation == "replace":
            rebuilt[edit.index] = edit.message
        else:
            del rebuilt[edit.index]
    assert rebuilt == list(outcome.messages)


LOSING = {"orphan_result", "duplicate_result", "nameless_call", "superseded_placeholder"}
"""Findings with which a result leaves on purpose."""


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if case.kind == "broken"
        and case.format != "langchain"
        and not LOSING & {kind for kind, *_ in case.expect["findings"]}
    ],
    ids=lambda case: case.name,
)
def test_real_results_texts_and_signed_reasoning_survive(case: Case) -> None:
    messages = case.messages()
    outcome = toolmend.repair(messages, format=case.format, policy=case.policy())
    mended = json.dumps(outcome.messages, ensure_ascii=False)
    for text in re.findall(r'"(?:content|text|signature)": ("[^"]+")', json.dumps(messages)):
        if json.loads(text) in SHIPPED:
            continue
        assert json.loads(text) in json.loads(json.dumps(mended)), text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_format_is_recognised_without_being_named(case: Case) -> None:
    outcome = toolmend.repair(case.messages(), policy=case.policy())
    assert outcome.format == case.format
