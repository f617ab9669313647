"""Every recorded failure is repaired as its file says."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from typing import Any

import pytest

import toolmend
from tests.formats.case_files import FORMATS, SHIPPED, Case, ids, load, normalised, sketch
from tests.formats.contents import Block, blocks, owners
from toolmend.testing import assert_legal

CASES = load(*FORMATS)


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


HOST_OPTIONS = ("profile", "max_id_len", "strict_alternation")


def _start_of_window(case: Case, messages: list[Any]) -> int:
    """Return where the part begins that is looked at: no batch is divided."""
    start = max(len(messages) - case.options.get("window", len(messages)), 0)
    while start and messages[start]["role"] == "tool":
        start -= 1
    return start


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
    start = _start_of_window(case, messages)
    assert list(outcome.messages[:start]) == messages[:start]
    assert_legal(
        outcome.messages[start:],
        format=case.format,
        allow_open_tail=case.options.get("trailing") == "leave",
        allow_open=frozenset(case.options.get("in_flight", ())),
        allow_orphans=case.options.get("orphans") == "keep",
        server_state=case.has_server_state(),
        **{name: case.options[name] for name in HOST_OPTIONS if name in case.options},
    )
    placeholders = SHIPPED | frozenset(case.options.get("placeholder_texts", ()))
    made = normalised(
        case.format,
        sketch(case.format, list(outcome.messages), placeholders),
        ids(case.format, list(outcome.messages)) - ids(case.format, messages),
    )
    matching = [
        want for want in case.results() if normalised(case.format, want["sequence"]) == made
    ]
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


BROKEN = pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind == "broken"], ids=lambda case: case.name
)
LOSING = {"orphan_result", "duplicate_result", "nameless_call", "bad_first_turn"}
"""Findings with which a real result leaves on purpose."""


def _is_made_up(case: Case, block: Block) -> bool:
    if "error_code" in block.said:
        return True
    named = frozenset(case.options.get("placeholder_texts", ()))
    texts = SHIPPED | named | frozenset(case.expect.get("recognised", ()))
    return isinstance(block.text, str) and block.text in texts


@BROKEN
def test_real_results_and_texts_survive(case: Case) -> None:
    before = blocks(case.format, case.messages())
    outcome = toolmend.repair(case.messages(), format=case.format, policy=case.policy())
    after = blocks(case.format, list(outcome.messages))
    texts = [block.text for block in after if block.kind == "text"]
    stubs = outcome.counts.get("stub_messages", 0) + outcome.counts.get("bridge_messages", 0)
    kept = [block.text for block in before if block.kind == "text"]
    assert [text for text in texts if text in kept] == kept
    assert len(texts) == len(kept) + stubs
    # What an image shows stays, too.
    assert _said(after, "other") == _said(before, "other")
    real, given = (
        [block.said for block in side if block.kind == "result" and not _is_made_up(case, block)]
        for side in (before, after)
    )
    assert not Counter(given) - Counter(real)
    losing = [
        f for f in outcome.findings if f.kind in LOSING and f.action in ("removed", "dropped")
    ]
    assert len(real) - len(given) <= len(losing)


def _said(history: list[Block], kind: str) -> list[str]:
    return [block.said for block in history if block.kind == kind]


@BROKEN
def test_results_stay_with_their_own_calls(case: Case) -> None:
    allowed = owners(case.format, case.messages())
    outcome = toolmend.repair(case.messages(), format=case.format, policy=case.policy())
    fixed = {f.call_id for f in outcome.findings if f.kind == "invalid_arguments"}
    after = blocks(case.format, list(outcome.messages))
    keys = {block.said: block.key for block in after if block.kind == "result"}
    for said, calls in owners(case.format, list(outcome.messages)).items():
        if said in allowed and keys[said] not in fixed:
            assert calls <= allowed[said], said


CHANGING = {"renamed", "fixed", "dropped"}


@BROKEN
def test_signed_reasoning_stays_with_its_message(case: Case) -> None:
    messages = case.messages()
    outcome = toolmend.repair(messages, format=case.format, policy=case.policy())
    before, after = (blocks(case.format, list(side)) for side in (messages, outcome.messages))
    removed = [f for f in outcome.findings if f.kind == "orphan_reasoning"]
    signed = _said(before, "signed")
    kept = _said(after, "signed")
    assert [said for said in signed if said in kept] == kept
    assert len(kept) == len(signed) - len(removed)
    has_changed = any(
        f.action in CHANGING or f.kind == "duplicate_call" or f.cause == "server_tool"
        for f in outcome.findings
    )
    for block in before:
        if block.kind == "signed" and block.said in kept and not has_changed:
            assert messages[block.message] in outcome.messages


@BROKEN
def test_a_placeholder_carries_the_error_mark_of_its_format(case: Case) -> None:
    outcome = toolmend.repair(case.messages(), format=case.format, policy=case.policy())
    if outcome.counts["patched"] and case.format != "langchain":
        written = json.dumps(outcome.messages, ensure_ascii=False)
        mark = ERROR_MARKS.get(case.format)
        made = len(re.findall("|".join(map(re.escape, SHIPPED)), written))
        servers = sum(f.cause == "server_tool" for f in outcome.findings)
        assert made >= outcome.counts["patched"] - servers or case.options.get("placeholder")
        assert mark is None or len(re.findall(mark, written)) >= outcome.counts["patched"]
        if case.format == "gemini":
            snake = "function_call" in json.dumps(case.messages())
            assert ("function_response" in written) == snake
            assert ("functionResponse" in written) != snake
        if case.format == "bedrock":
            assert written.count('"status"') == json.dumps(case.messages()).count('"status"')
    elif case.format == "langchain":
        for message in outcome.messages:
            if message.type == "tool" and message.content in SHIPPED:
                assert (message.status, bool(message.name)) == ("error", True)


ERROR_MARKS = {
    "anthropic": r'"is_error": true|"error_code": "unavailable"',
    "gemini": r'"response": \{"error": "',
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_format_is_recognised_without_being_named(case: Case) -> None:
    outcome = toolmend.repair(case.messages(), policy=case.policy())
    assert outcome.format == case.format
