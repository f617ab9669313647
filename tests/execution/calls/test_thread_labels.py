"""Ids of conversations in the telemetry of tools: as they are, or hashed where somebody asked for it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import toolmend
from tests.execution.calls.driving import asked
from toolmend import PolicyError
from toolmend.execution import Fallback, ToolCallFailed, Tools, tool_call, tool_context
from toolmend.settings import settings
from toolmend.telemetry import names
from toolmend.telemetry.thread_labels import thread_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.telemetry_capture import Captured

THREAD = "customer-4711"


@pytest.fixture(params=[None, "hash"], ids=["environment silent", "environment hashes"])
def environment(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str | None]:
    monkeypatch.delenv("TOOLMEND_THREAD_LABEL", raising=False)
    if request.param is not None:
        monkeypatch.setenv("TOOLMEND_THREAD_LABEL", request.param)
    settings.cache_clear()
    yield request.param
    settings.cache_clear()


@tool_call(name="inner")
def inner() -> None:
    raise ValueError("no")


@tool_call(name="other")
def other() -> str:
    return "value"


def fail() -> None:
    with suppress(ToolCallFailed):
        inner()
    raise ConnectionRefusedError


LABELS = (None, "raw", "hash")
CASES = [(tool, around) for tool in LABELS for around in LABELS]


@pytest.mark.parametrize(
    ("tool_label", "label"), CASES, ids=[f"tool {t}, around it {a}" for t, a in CASES]
)
@pytest.mark.parametrize("how", ["Tools", "tool_context"])
def test_every_span_and_log_of_a_tool_shows_the_thread_as_asked(
    how: str,
    tool_label: Any,
    label: Any,
    environment: str | None,
    telemetry: Captured,
) -> None:
    options: dict[str, Any] = {"fallback": Fallback(tool=other), "retry": None}
    guarded = tool_call(fail, name="look", thread_label=tool_label, **options)
    if how == "Tools":
        tools = Tools(thread_label=label)
        tools.register(guarded)
        tools.run_sync(asked(("c1", "look", "{}"), ("c2", "nobody", "{}")), thread=THREAD)
    else:
        with tool_context(call_id="c1", thread=THREAD, thread_label=label):
            guarded()
    of_tool = thread_label(THREAD, tool_label or label or environment)
    expected = {"look": of_tool, "inner": of_tool, "other": of_tool}
    if how == "Tools":
        expected["_OTHER"] = thread_label(THREAD, label or environment)
    spans = {
        span.attributes[names.TOOL]: span.attributes[names.THREAD]
        for span in telemetry.spans
        if names.THREAD in span.attributes
    }
    assert spans == expected
    logs = {log["tool"]: log["thread"] for log in telemetry.logs}
    assert logs == {tool: shown for tool, shown in expected.items() if tool != "other"}


@pytest.mark.parametrize("label", ["", "hashed", 5, True])
def test_labels_that_there_are_not(label: Any) -> None:
    with pytest.raises(PolicyError, match="thread_label"):
        Tools(thread_label=label)
    with pytest.raises(PolicyError, match="thread_label"), tool_context(thread_label=label):
        raise AssertionError("not entered")


def test_a_tool_is_told_the_thread_itself() -> None:
    seen = []

    @tool_call(thread_label="hash")
    def look(context: toolmend.ToolContext) -> None:
        seen.append(context.thread)

    with tool_context(thread=THREAD):
        look()
    assert seen == [THREAD]
