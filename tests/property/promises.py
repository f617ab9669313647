"""Promises: what has to hold for every repair, each as one function that fails when it does not."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import toolmend
from tests.property.damage import PLACEHOLDERS
from tests.property.outline import ANTHROPIC, GEMINI, LANGCHAIN
from tests.property.reading import (
    Event,
    answers,
    as_objects,
    events,
    expected_answers,
    field,
    marks_in_order,
    shares_key,
)
from tests.property.strategies import USES_CAUSE, Sample
from tests.property.windows import first_of_window, possible_starts
from toolmend.formats import FORMATS as WIRES
from toolmend.formats.hosts import suits_host
from toolmend.mend import Repair
from toolmend.mending.findings import Finding
from toolmend.mending.plan import make_plan
from toolmend.mending.policy import DEFAULT_POLICY
from toolmend.tails import Tails
from toolmend.testing import problems

MAIN_COUNTERS = ("patched", "dropped", "moved", "orphan_results_removed", "duplicates_removed")
COUNTER_OF = {
    ("dangling_call", "patched"): "patched",
    ("dangling_call", "dropped"): "dropped",
    ("unanswerable_call", "dropped"): "dropped",
    ("nameless_call", "dropped"): "dropped",
    ("duplicate_call", "removed"): "duplicates_removed",
    ("orphan_result", "removed"): "orphan_results_removed",
    ("duplicate_result", "removed"): "duplicates_removed",
    ("superseded_placeholder", "removed"): "duplicates_removed",
    ("misplaced_result", "moved"): "moved",
    ("missing_id", "renamed"): "renamed_ids",
    ("malformed_id", "renamed"): "renamed_ids",
    ("reused_id", "renamed"): "renamed_ids",
    ("colliding_id", "renamed"): "renamed_ids",
    ("invalid_arguments", "fixed"): "arguments_fixed",
    ("orphan_reasoning", "removed"): "reasoning_removed",
    ("empty_message", "removed"): "empty_messages_removed",
    ("bad_first_turn", "stubbed"): "stub_messages",
    ("role_order", "bridged"): "bridge_messages",
    ("role_order", "merged"): "merged_messages",
    ("split_results", "merged"): "merged_messages",
    ("mixed_result_turn", "split"): "split_messages",
    ("wrong_result_type", "retyped"): "retyped_results",
    ("empty_message", "fixed"): None,
    ("pending_call", "left"): None,
    ("orphan_result", "left"): None,
    ("unknown_role", "left"): None,
}


def mend(sample: Sample) -> Repair:
    return mend_messages(sample, sample.messages)


def mend_messages(sample: Sample, messages: Sequence[Any]) -> Repair:
    return toolmend.repair(
        messages, format=sample.format, policy=sample.policy, causes=sample.causes
    )


def judge(sample: Sample, messages: Sequence[Any]) -> list[Any]:
    policy = sample.policy or DEFAULT_POLICY
    return problems(
        as_objects(sample.format, messages),
        format=sample.format,
        allow_open_tail=policy.trailing == "leave",
        allow_open=sample.in_flight_ids(),
        allow_orphans=policy.orphans == "keep",
        profile=policy.profile,
        max_id_len=policy.max_id_len,
        strict_alternation=policy.strict_alternation,
    )


ID_PROBLEMS = ("missing_id", "malformed_id", "duplicate_id")
OF_THE_HEAD = ("bad_first_turn", "misplaced_call")


def may_have_odd_ids(outcome: Repair) -> bool:
    """Tell whether a call was left open: it keeps the id under which it will be answered."""
    return any(finding.kind == "pending_call" for finding in outcome.findings)


def has_twin_ids(sample: Sample) -> bool:
    """Tell whether ids differ in blanks alone, or two calls of the provider share one.

    Which result means which call is a guess there, and what leaves may turn it.
    """
    calls = [e for e in events(sample.format, sample.messages) if e.kind == "call"]
    ids = {event.id for event in calls if isinstance(event.id, str) and event.id.strip()}
    served = [event.key for event in calls if event.is_server and event.key is not None]
    return len({name.strip() for name in ids}) < len(ids) or len(set(served)) < len(served)


def is_legal(sample: Sample, outcome: Repair) -> None:
    if has_twin_ids(sample):
        return
    starts = possible_starts(sample, outcome)
    assert starts, "what stands before the window is not as it was"
    found = [faults(sample, outcome, start) for start in starts]
    assert [] in found, found[-1]
    heads = [history[0] for history in (sample.messages, outcome.messages) if history]
    if sample.format == ANTHROPIC and heads and field(heads[0], "role") == "user":
        assert field(heads[-1], "role") == "user"


def faults(sample: Sample, outcome: Repair, start: int) -> list[Any]:
    """Return what the judge says about a mended history from an index on, as far as repairs promise it."""
    messages = outcome.messages[start:]
    found = judge(sample, messages)
    if start:  # what comes first in a window is not the head of the history
        found = [problem for problem in found if problem.index or problem.kind not in OF_THE_HEAD]
    if may_have_odd_ids(outcome):
        pending = {f.call_id for f in outcome.findings if f.kind == "pending_call"}
        found = [
            problem
            for problem in found
            if problem.kind not in ID_PROBLEMS
            and not (problem.kind == "wrong_result_type" and set(problem.call_ids) & pending)
        ]
    if any((f.kind, f.action) == ("orphan_result", "left") for f in outcome.findings):
        # Where they stand and what ids they have is the caller's affair.
        if sample.format == GEMINI:
            return []
        kept = ("misplaced_result", "split_results", *ID_PROBLEMS)
        found = [problem for problem in found if problem.kind not in kept]
    # A legacy call is content, whatever stands beside it.
    legacy = {i for i, m in enumerate(messages) if field(m, "function_call") is not None}
    found = [p for p in found if not (p.kind == "empty_content" and p.index in legacy)]
    if sample.format == GEMINI:  # the id of a response whose call has none is left alone
        calls = {e.id for e in events(GEMINI, messages) if e.kind == "call"}
        found = [p for p in found if p.kind != "malformed_id" or set(p.call_ids) & calls]
    # A signature stays in its part, wherever that stands after contents were joined; reasoning that
    # was never stored cannot be made up.
    beyond_repair = ("misplaced_signature", "missing_reasoning")
    return [problem for problem in found if problem.kind not in beyond_repair]


def is_done_once(sample: Sample, outcome: Repair) -> None:
    if has_twin_ids(sample):
        return
    left = {f.call_id for f in outcome.findings if (f.kind, f.action) == ("orphan_result", "left")}
    if left & {
        event.id for event in events(sample.format, sample.messages) if event.kind == "call"
    }:
        return  # what was far from the call of its id may stand right before it when others left
    again = mend_messages(sample, outcome.messages)
    assert not [f for f in again.findings if f.action != "left"]
    assert again.messages is outcome.messages
    assert not again.changed
    assert again.edits == ()


def is_told(sample: Sample, outcome: Repair) -> None:
    """Findings, counters and edits tell the same story."""
    checked = toolmend.check(sample.messages, format=sample.format, policy=sample.policy)
    assert _without_causes(checked) == _without_causes(outcome.findings)
    kinds = [(finding.kind, finding.action) for finding in outcome.findings]
    assert set(kinds) <= set(COUNTER_OF)
    recount: Counter[str] = Counter(dict.fromkeys(MAIN_COUNTERS, 0))
    for kind in kinds:
        counter = COUNTER_OF[kind]
        if counter is not None:
            recount[counter] += 1
        if kind == ("duplicate_call", "removed"):
            recount["duplicate_calls_removed"] += 1
    counts = dict(outcome.counts)
    with_call = counts.pop("results_dropped_with_call", 0)
    assert counts == dict(recount)
    assert with_call <= recount["dropped"]
    indices = [finding.index for finding in outcome.findings]
    assert indices == sorted(indices)
    assert outcome.changed == any(action != "left" for _, action in kinds)
    if not outcome.changed:
        assert outcome.messages is sample.messages
        assert outcome.edits == ()


def causes_are_told(sample: Sample, outcome: Repair) -> None:
    """What is known from elsewhere is told, and enters the texts only where the policy says so."""
    plain = toolmend.repair(sample.messages, format=sample.format, policy=sample.policy)
    assert _without_causes(plain.findings) == _without_causes(outcome.findings)
    for told, inferred in zip(outcome.findings, plain.findings, strict=True):
        if inferred.cause is not None:
            assert told.cause == sample.causes.get(str(told.call_id), inferred.cause)
    assert [(e.operation, e.index, e.source, e.synthetic) for e in plain.edits] == [
        (e.operation, e.index, e.source, e.synthetic) for e in outcome.edits
    ]
    policy = sample.policy or DEFAULT_POLICY
    if not policy.text_from_record:
        assert list(plain.messages) == list(outcome.messages)
        return
    if policy.placeholder != USES_CAUSE:
        return
    made = {finding.cause for finding in outcome.findings if finding.action == "patched"}
    before = Counter(told_causes(sample.format, sample.messages))
    told = Counter(told_causes(sample.format, outcome.messages)) - before
    assert set(told) <= made


def told_causes(format: str, messages: Sequence[Any]) -> list[str]:
    """Return the causes that placeholders tell which are made of the template that names one."""
    texts = [event.text for event in events(format, messages) if event.kind == "result"]
    behind = USES_CAUSE.removeprefix("{cause}")
    return [text.removesuffix(behind) for text in texts if text and text.endswith(behind)]


def _without_causes(findings: Sequence[Finding]) -> list[Finding]:
    return [replace(finding, cause=None) for finding in findings]


def edits_give_messages(sample: Sample, outcome: Repair) -> None:
    """Edits applied from the end give the messages; what no edit names is the very same object."""
    rebuilt = list(sample.messages)
    results = [e for e in events(sample.format, sample.messages) if e.kind == "result"]
    has_equal_results = len({(e.key, e.text, e.mark) for e in results}) < len(results)
    for edit in reversed(outcome.edits):
        if edit.operation == "insert":
            rebuilt.insert(edit.index, edit.message)
        elif edit.operation == "replace":
            assert edit.message != sample.messages[edit.index] or has_equal_results
            rebuilt[edit.index] = edit.message
        else:
            del rebuilt[edit.index]
    assert len(rebuilt) == len(outcome.messages)
    assert all(one is two for one, two in zip(rebuilt, outcome.messages, strict=True))


def order_is_kept(sample: Sample, outcome: Repair) -> None:
    place = {id(message): index for index, message in enumerate(sample.messages)}
    moved = {edit.source for edit in outcome.edits if edit.source is not None}
    kept = [place[id(message)] for message in outcome.messages if id(message) in place]
    untouched = [index for index in kept if index not in moved]
    assert untouched == sorted(set(untouched))
    assert len(kept) == len(set(kept))


def no_text_is_lost(sample: Sample, outcome: Repair) -> None:
    before = marks_in_order(sample.format, sample.messages, "text")
    assert marks_in_order(sample.format, outcome.messages, "text") == before
    reasoning = marks_in_order(sample.format, sample.messages, "thinking")
    kept = marks_in_order(sample.format, outcome.messages, "thinking")
    removed = [f for f in outcome.findings if f.kind == "orphan_reasoning"]
    assert len(kept) == len(reasoning) - len(removed)
    assert kept == [mark for mark in reasoning if mark in set(kept)]


def no_signature_is_lost(sample: Sample, outcome: Repair) -> None:
    """A call that carries the signature of its batch stays while other calls of the batch do."""
    if any(f.kind in ("nameless_call", "duplicate_call") for f in outcome.findings):
        return
    after = {e.name for e in events(sample.format, outcome.messages) if e.kind == "call"}
    batches: dict[int, list[Event]] = {}
    for event in events(sample.format, sample.messages):
        if event.kind == "call" and event.name:
            batches.setdefault(event.index, []).append(event)
    for batch in batches.values():
        if any(event.name in after for event in batch):
            assert all(event.name in after for event in batch if event.is_signed)


def has_borrowed_ids(sample: Sample) -> bool:
    """Tell whether Gemini calls with and without ids stand in one history, and a response has both choices.

    Its id is that of a call of another name, its name that of a call without an id: a guess either way.
    """
    if sample.format != GEMINI:
        return False
    found = list(events(GEMINI, sample.messages))
    calls = [event for event in found if event.kind == "call"]
    names: dict[Any, set[str]] = {}
    for call in calls:
        names.setdefault(call.id, set()).add(call.tool or call.name)
    return None in names and any(
        event.kind == "result" and event.id is not None and event.id in names for event in found
    )


def placeholder_texts(sample: Sample) -> Collection[str]:
    policy = sample.policy or DEFAULT_POLICY
    return frozenset(PLACEHOLDERS[:-1]) | frozenset(policy.placeholder_texts)


def no_result_is_lost(sample: Sample, outcome: Repair) -> None:
    given = [
        (call.name, result.mark)
        for call, result in answers(sample.format, outcome.messages)
        if result.mark
    ]
    since = first_of_window(sample)
    wanted = expected_answers(sample.format, sample.messages, placeholder_texts(sample), since)
    missing = Counter(wanted) - Counter(given)
    assert not missing, missing


def no_result_changes_hands(sample: Sample, outcome: Repair) -> None:
    before = events(sample.format, sample.messages)
    calls_of: dict[str, list[Event]] = {}
    results_of: dict[str, list[Event]] = {}
    for event in before:
        if event.kind == "call" and event.name:
            calls_of.setdefault(event.name, []).append(event)
        elif event.kind == "result" and event.mark:
            results_of.setdefault(event.mark, []).append(event)
    given = answers(sample.format, outcome.messages)
    for call, result in given:
        if result.mark and call.name:
            assert any(
                shares_key(theirs, ours)
                for ours in calls_of[call.name]
                for theirs in results_of[result.mark]
            ), (call, result)
    marks = Counter(result.mark for _, result in given if result.mark)
    marks_before = Counter(e.mark for e in before if e.kind == "result" and e.mark)
    assert not marks - marks_before


def fast_path_agrees(sample: Sample) -> None:
    policy = sample.policy or DEFAULT_POLICY
    wire = WIRES[sample.format]
    fast = wire.is_legal(sample.messages, policy)
    if fast and policy.asks_more:
        fast = suits_host(sample.messages, wire, policy)
    plan = make_plan(wire.read(sample.messages), wire.RULES, policy)
    if fast:
        assert plan.findings == ()
    if not plan.findings:
        assert [slot.source for slot in plan.slots] == list(range(len(sample.messages)))
        assert all(slot.parts is None for slot in plan.slots)
        if not fast and not policy.server_state and not policy.asks_more:
            assert _may_doubt(sample)
            assert judge(sample, sample.messages) == []


def near_end_is_the_end(sample: Sample) -> None:
    """Where a window can be told without the rest of a history, it begins where all of it says."""
    wire = WIRES[sample.format]
    tails = Tails(sample.messages, wire, sample.policy or DEFAULT_POLICY)
    for size in range(1, len(sample.messages)):
        near = tails.near(size)
        if near is not None:
            far = tails.far(size)
            assert far is not None
            assert (near.start, near.role_before) == (far.start, far.role_before)
            assert near.transcript.refers_to_server == far.transcript.refers_to_server


def _may_doubt(sample: Sample) -> bool:
    """Tell whether the fast path leaves a history to the other one.

    Server calls are answered later or not at all, items are no message objects, or some calls of a
    turn have ids and some have none.
    """
    if sample.format == GEMINI:
        ids = [e.id for e in events(GEMINI, sample.messages) if e.kind in ("call", "result")]
        return len(set(map(type, ids))) > 1 or any(
            not isinstance(name, str) or not name.strip() for name in ids if name is not None
        )
    if sample.format == LANGCHAIN:
        return any(isinstance(message, dict | tuple) for message in sample.messages)
    open_calls: Counter[Any] = Counter()
    for event in events(sample.format, sample.messages):
        if event.is_server:
            key = (event.index, event.key)
            open_calls[key] += 1 if event.kind == "call" else -1
    return any(open_calls.values())


def legal_stays(sample: Sample, outcome: Repair) -> None:
    """A history that the independent judge takes comes back as it is."""
    history = events(sample.format, sample.messages)
    if any(event.kind == "result" and event.role == "system" for event in history):
        return  # the judge does not look into system messages
    if any(finding.kind == "unknown_role" for finding in outcome.findings):
        return  # what such a message means for its neighbours is unknown to both
    if sample.format == GEMINI and any(
        finding.kind in ("mixed_result_turn", "colliding_id") for finding in outcome.findings
    ):
        return  # it lets texts stand between responses, and counts uses of an id
    if any(field(message, "type") == "compaction" for message in sample.messages):
        return  # it lets reasoning lead to any item that is no result
    if any(field(m, "content") is None for m in sample.messages) and sample.format == ANTHROPIC:
        return  # nor at the type of content
    if sample.format == LANGCHAIN and {f.kind for f in outcome.findings} == {"invalid_arguments"}:
        return  # nor at the arguments of dicts
    if not judge(sample, sample.messages):
        assert outcome.messages is sample.messages, outcome.findings


def keeps_its_promises(sample: Sample) -> Repair:
    before = copy.deepcopy(sample.messages)
    items = list(sample.messages)
    outcome = mend(sample)
    assert len(items) == len(sample.messages)
    assert all(one is two for one, two in zip(items, sample.messages, strict=True))
    assert sample.messages == before
    is_told(sample, outcome)
    causes_are_told(sample, outcome)
    edits_give_messages(sample, outcome)
    order_is_kept(sample, outcome)
    no_text_is_lost(sample, outcome)
    fast_path_agrees(sample)
    near_end_is_the_end(sample)
    if sample.policy is not None and sample.policy.server_state:
        # What a result answers may be told by a call that leaves, and nothing may leave with it.
        is_named = not any(f.kind == "nameless_call" for f in outcome.findings)
        if is_named and not (sample.format == GEMINI and _may_doubt(sample)):
            is_done_once(sample, outcome)
        return outcome
    if has_borrowed_ids(sample):
        return outcome
    is_done_once(sample, outcome)
    is_legal(sample, outcome)
    no_signature_is_lost(sample, outcome)
    no_result_is_lost(sample, outcome)
    no_result_changes_hands(sample, outcome)
    if sample.policy is None:
        legal_stays(sample, outcome)
    return outcome
