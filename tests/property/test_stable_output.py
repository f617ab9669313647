"""The same history gives the same repair: in another process, and while the conversation grows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import toolmend
from tests.property.corpus import as_lines
from tests.property.outline import ANTHROPIC, BEDROCK, FORMATS, GEMINI
from tests.property.reading import events, field
from tests.property.strategies import growing_histories
from toolmend.mending.policy import Policy

JOINED = (ANTHROPIC, GEMINI, BEDROCK)
ROOT = Path(__file__).parents[2]


@cache
def _lines_of_this_process() -> tuple[str, ...]:
    return tuple(as_lines())


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_no_process_repairs_another_way(seed: str) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.property.corpus"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    )
    here = "\n".join(_lines_of_this_process()).encode()
    assert here.count(b"\n") > 200
    assert made.stdout.replace(b"\r\n", b"\n").strip() == here


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_appended_leaves_earlier_output_equal(format: str, data: st.DataObject) -> None:
    sample = data.draw(growing_histories(format))
    # What slides out of a window stays as it is, so that is promised for whole histories alone.
    policy = replace(sample.policy or Policy(), window=None)
    before = toolmend.repair(sample.messages, format, policy, sample.causes)
    assume(_is_complete(format, sample.messages) and _is_complete(format, before.messages))
    grown = [*sample.messages, *sample.more]
    after = toolmend.repair(grown, format, policy, sample.causes)
    if format in JOINED:  # neighbouring messages of one role are one turn, or are joined
        one, two = _blocks(before.messages), _blocks(after.messages)
    else:
        one, two = list(before.messages), list(after.messages)
    assert two[: len(one)] == one
    if policy.profile is not None or policy.strict_alternation:
        return  # what is appended may need repair itself
    assert _blocks(after.messages)[-len(_blocks(sample.more)) :] == _blocks(sample.more)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_slides_out_at_the_head_leaves_later_output_equal(
    format: str, data: st.DataObject
) -> None:
    sample = data.draw(growing_histories(format))
    policy = replace(sample.policy or Policy(), profile=None, strict_alternation=False)
    alone = toolmend.repair(sample.messages, format, policy, sample.causes)
    assume(not any(finding.kind == "bad_first_turn" for finding in alone.findings))
    head = [*sample.more, sample.more[0]]  # ends with the user, so that no turn is joined
    if format == BEDROCK:
        head.pop()  # users are joined; a head of the assistant is a bad first turn
    whole = toolmend.repair([*head, *sample.messages], format, policy, sample.causes)
    assert list(whole.messages[: len(head)]) == head
    assert list(whole.messages[len(head) :]) == list(alone.messages)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_stands_before_a_window_is_of_no_concern(format: str, data: st.DataObject) -> None:
    sample = data.draw(growing_histories(format))
    policy = replace(sample.policy or Policy(), profile=None, strict_alternation=False)
    whole = [*sample.messages, *sample.more]
    outcome = toolmend.repair(
        whole, format, replace(policy, window=len(sample.more)), sample.causes
    )
    if format == BEDROCK:  # there, neighbours of one role become one
        last = events(format, sample.messages)[-1:]
        assume(all(e.role == "assistant" and e.kind != "blank" for e in last))
    assert outcome.messages is whole
    assert outcome.findings == ()


def _blocks(messages: Sequence[Any]) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for message in messages:
        if isinstance(message, str):
            out.append(("user", {"text": message}))
            continue
        role, content = field(message, "role") or "user", field(message, "content")
        if content is None:
            content = field(message, "parts")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        out.extend((role, block) for block in content or ())
    return out


def _is_complete(format: str, messages: Sequence[Any]) -> bool:
    """Tell whether no server call is open and the last message is one that others may follow."""
    if format != ANTHROPIC or not messages:
        return True
    history = events(format, messages)
    waiting: set[Any] = set()
    known: set[Any] = set()
    for event in history:
        if event.is_server and event.kind == "call":
            if event.key is None or event.key in known:
                return False
            waiting.add(event.key)
            known.add(event.key)
        elif event.is_server:
            waiting.discard(event.key)
    if waiting:
        return False
    last = [event for event in history if event.index == len(messages) - 1]
    if last[0].role != "assistant":
        return True
    return last[-1].kind != "thinking" and any(e.kind in ("text", "call") for e in last)
