"""What is kept between calls: how calls ended, what runs have spent, and what gauges show; all of it bounded."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.unit.telemetry_capture import Captured, captured
from toolmend import Breaker, breaker_of, tool_call
from toolmend._call_ends import CallEnd, CallEnds
from toolmend.execution.budgets import Budgets, Spent
from toolmend.telemetry import gauges, names


def end(tool: str = "t", cause: str | None = "timeout") -> CallEnd:
    return CallEnd(tool, cause, None)


@pytest.mark.parametrize(
    ("noted", "thread", "tool", "found"),
    [
        ([], "a", "t", None),
        ([("a", "t")], "a", "t", "t"),
        ([("a", "t")], "a", None, "t"),
        ([("a", "t")], "a", "other", None),
        ([("a", "t")], "b", "t", None),
        ([("a", "t")], None, "t", "t"),
        ([("a", "t"), ("b", "t")], None, "t", None),
        ([(None, "t")], "a", "t", "t"),
        ([(None, "t")], "a", "other", None),
        ([(None, "n"), ("a", "t")], "a", None, "t"),
        ([(None, "n"), ("a", "t")], "b", None, "n"),
        ([(None, "n"), ("a", "t")], None, None, "n"),
    ],
    ids=[
        *("unknown", "same-thread", "tool-unknown", "other-tool", "other-thread", "only-thread"),
        *(
            "two-threads",
            "nameless",
            "nameless-other-tool",
            "named-first",
            "nameless-second",
            "nameless-asked",
        ),
    ],
)
def test_call_ends(noted, thread, tool, found):
    ends = CallEnds()
    for noted_thread, noted_tool in noted:
        ends.note(noted_thread, "c1", end(noted_tool))
    got = ends.find(thread, "c1", tool)
    assert (got.tool if got else None) == found
    assert ends.find(thread, "c2", tool) is None


def test_the_latest_end_of_a_call_counts():
    ends = CallEnds()
    ends.note("a", "c1", end(cause=None))
    ends.note("a", "c1", end(cause="cancelled"))
    assert ends.find("a", "c1", "t").cause == "cancelled"


def test_call_ends_are_bounded_and_forget_the_oldest():
    ends = CallEnds(max_calls=3)
    for call in ("c1", "c2", "c3"):
        ends.note("a", call, end())
    ends.note("a", "c1", end(cause="cancelled"))  # again, so it is not the oldest any more
    ends.note("a", "c4", end())
    assert [ends.find("a", call, "t") is not None for call in ("c1", "c2", "c3", "c4")] == [
        True,
        False,
        True,
        True,
    ]
    for number in range(1000):
        ends.note("a", f"n{number}", end())
    assert len(ends._ends) == 3


def test_one_id_in_many_threads_is_bounded_and_forgets_the_oldest():
    ends = CallEnds()
    for number in range(100):
        ends.note(f"thread-{number}", "call_0", end())
    assert ends.find("thread-0", "call_0", "t") is None
    assert ends.find("thread-67", "call_0", "t") is None
    assert ends.find("thread-68", "call_0", "t") is not None
    assert ends.find("thread-99", "call_0", "t") is not None


def in_a_crowd(work) -> None:
    errors = []
    barrier = threading.Barrier(8)

    def one(number: int) -> None:
        barrier.wait(20)
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - it is raised in a thread, and told below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []


def test_call_ends_in_a_crowd():
    ends = CallEnds(max_calls=50)

    def work(number: int) -> None:
        for turn in range(500):
            ends.note(f"t{number}", f"c{turn % 70}", end(f"tool{number}"))
            got = ends.find(f"t{number}", f"c{turn % 70}", None)
            assert got is None or got.tool == f"tool{number}"

    in_a_crowd(work)
    assert len(ends._ends) <= 50


def test_budgets_count_failures_and_attempts_of_one_tool_in_one_run():
    budgets = Budgets()
    assert budgets.spent("r1", "t") == Spent()
    budgets.add("r1", "t", attempts=3, failed="timeout")
    budgets.add("r1", "t", attempts=1, failed=None)
    after = budgets.add("r1", "t", attempts=2, failed="transient")
    assert (
        after
        == budgets.spent("r1", "t")
        == Spent(failures=2, attempts=6, last_error_type="transient")
    )
    assert budgets.spent("r2", "t") == budgets.spent("r1", "u") == Spent()


def test_what_budgets_return_is_a_copy():
    budgets = Budgets()
    budgets.add("r", "t", attempts=1, failed="timeout").failures = 99
    budgets.spent("r", "t").failures = 99
    assert budgets.spent("r", "t").failures == 1


def test_budgets_are_bounded_and_forget_what_was_longest_unused():
    budgets = Budgets(max_runs=3)
    for run in ("r1", "r2", "r3"):
        budgets.add(run, "t", attempts=1, failed="timeout")
    budgets.add("r1", "t", attempts=1, failed="timeout")
    budgets.add("r4", "t", attempts=1, failed="timeout")
    assert [budgets.spent(run, "t").failures for run in ("r1", "r2", "r3", "r4")] == [2, 0, 1, 1]
    for number in range(1000):
        budgets.add(f"n{number}", "t", attempts=1, failed=None)
    assert len(budgets._spent) == 3


def test_budgets_in_a_crowd():
    budgets = Budgets()
    in_a_crowd(lambda _: [budgets.add("r", "t", attempts=2, failed="timeout") for _ in range(500)])
    assert budgets.spent("r", "t") == Spent(failures=4000, attempts=8000, last_error_type="timeout")


@dataclass(eq=False)
class Watched:
    tool_name: str
    state: str | None = "closed"
    abandoned: int = 0

    def breaker_state(self) -> str | None:
        return self.state

    def abandoned_calls(self) -> int:
        return self.abandoned


def points(capture: Captured, metric: str) -> Iterator[tuple[dict[str, str], float]]:
    data = capture.reader.get_metrics_data()
    for resource in data.resource_metrics:
        for found in resource.scope_metrics[0].metrics:
            if found.name == metric:
                for point in found.data.data_points:
                    yield dict(point.attributes), point.value


def shown(capture: Captured, tool: str) -> dict[str, float]:
    return {
        labels["toolmend.state"]: value
        for labels, value in points(capture, names.BREAKER_STATE.name)
        if labels[names.TOOL] == tool
    }


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["closed"], "closed"),
        (["half_open"], "half_open"),
        (["closed", "open"], "open"),
        (["closed", "forced_open", "half_open"], "forced_open"),
        (["disabled", "closed"], "disabled"),
        (["forced_open", "open"], "open"),
        ([None, "closed"], "closed"),
        ([None], None),
    ],
    ids=str,
)
def test_tools_of_one_name_show_their_worst_state(states, expected):
    tools = [Watched(f"gauged-{states}", state) for state in states]
    for tool in tools:
        gauges.watch_tool(tool)
    with captured() as capture:
        found = shown(capture, tools[0].tool_name)
    if expected is None:
        assert found == {}
    else:
        assert found == {state: int(state == expected) for state in names.BREAKER_STATES}


def test_the_state_of_a_real_breaker_is_shown():
    @tool_call(name="gauged-real", breaker=Breaker(failures=1))
    def look() -> None: ...

    with captured() as capture:
        for act, state in (
            (breaker_of(look).force_open, "forced_open"),
            (breaker_of(look).disable, "disabled"),
            (breaker_of(look).reset, "closed"),
        ):
            act()
            assert shown(capture, "gauged-real")[state] == 1
            assert sum(shown(capture, "gauged-real").values()) == 1


def test_abandoned_calls_of_one_name_are_added_up_and_gone_tools_are_not_shown():
    tools = [Watched("gauged-sum", abandoned=2), Watched("gauged-sum", abandoned=3)]
    for tool in tools:
        gauges.watch_tool(tool)
    with captured() as capture:
        found = points(capture, names.TOOL_CALLS_ABANDONED.name)
        assert [value for labels, value in found if labels[names.TOOL] == "gauged-sum"] == [5]
        del tool, tools
        gc.collect()
        assert shown(capture, "gauged-sum") == {}


def test_gauges_are_read_while_tools_come_and_go():
    def work(number: int) -> None:
        for _ in range(300):
            if number % 2:
                gauges.watch_tool(Watched(f"gauged-{number}"))
            else:
                gauges._breaker_states()
                gauges._abandoned_calls()

    in_a_crowd(work)


def test_names_from_anywhere_do_not_break_a_gauge():
    tools = [Watched("half \ud800"), Watched("long " * 1000), Watched("")]
    for tool in tools:
        gauges.watch_tool(tool)
    with captured() as capture:
        found = [labels[names.TOOL] for labels, _ in points(capture, names.BREAKER_STATE.name)]
    assert found
    for name in found:
        name.encode()
        assert 0 < len(name) <= 200
