"""Retries: how long to wait, and when not to."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest

from toolmend import Failure, Retry, ToolCallFailed, tool_call, tool_context
from toolmend.errors import PolicyError
from toolmend.execution.failures import AttemptFailed
from toolmend.execution.retry import Backoff


def failed(retry_after: float | None = None, *, may_repeat: bool = True) -> AttemptFailed:
    failure = Failure(error_type="transient", retry_after_seconds=retry_after)
    return AttemptFailed(failure, may_repeat=may_repeat)


def waits(
    settings: Retry, failures: list[AttemptFailed], remaining: float | None = None
) -> list[float]:
    """Return the waits until there is none."""
    backoff = Backoff(settings, lambda: remaining)
    found = []
    with suppress(AttemptFailed):
        for one in failures:
            found.append(backoff.wait_after(one))  # noqa: PERF401 - those before the end are kept
    return found


@pytest.mark.parametrize("attempts", [1, 2, 3, 7])
def test_there_are_exactly_so_many_attempts(attempts):
    settings = Retry(max_attempts=attempts, initial_seconds=0)
    assert waits(settings, [failed() for _ in range(20)]) == [0.0] * (attempts - 1)


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        (Retry(max_attempts=6), [0.5, 1, 2, 4, 8]),
        (Retry(max_attempts=5, max_seconds=1.5), [0.5, 1, 1.5, 1.5]),
        (Retry(max_attempts=4, initial_seconds=3), [3, 6, 12]),
        (Retry(max_attempts=3, initial_seconds=30), [20, 20]),
        (Retry(max_attempts=3, initial_seconds=0), [0, 0]),
        (Retry(max_attempts=3, max_seconds=0), [0, 0]),
    ],
    ids=["default", "low-cap", "slow", "above-the-cap", "at-once", "never-waits"],
)
def test_waits_are_spread_between_nothing_and_a_bound_that_doubles(settings, bounds):
    seen = [waits(settings, [failed() for _ in range(9)]) for _ in range(400)]
    for number, bound in enumerate(bounds):
        values = [row[number] for row in seen]
        assert all(0 <= value <= bound for value in values)
        if bound:
            assert max(values) > 0.9 * bound
            assert min(values) < 0.1 * bound
    assert all(len(row) == len(bounds) for row in seen)


def test_the_bound_never_overflows():
    settings = Retry(max_attempts=3000, max_seconds=1)
    assert max(waits(settings, [failed() for _ in range(3000)])) <= 1


@pytest.mark.parametrize(
    ("asked", "settings", "expected"),
    [
        (7.0, Retry(), [7.0, 7.0]),
        (60.0, Retry(), [60.0, 60.0]),
        (60.1, Retry(), []),
        (1e9, Retry(), []),
        (1e9, Retry(max_retry_after_seconds=1e9), [1e9, 1e9]),
        (1.0, Retry(max_retry_after_seconds=0), []),
        (0.0, Retry(initial_seconds=0), [0.0, 0.0]),
        (30.0, Retry(max_seconds=1), [30.0, 30.0]),
    ],
    ids=[
        "waited-for",
        "just-short-enough",
        "too-long",
        "absurd",
        "allowed",
        "none-allowed",
        "zero",
        "cap-of-jitter",
    ],
)
def test_what_the_other_side_asks_for(asked, settings, expected):
    assert waits(settings, [failed(asked) for _ in range(5)]) == expected


def test_a_short_request_of_the_other_side_does_not_shorten_the_wait():
    settings = Retry(initial_seconds=10, max_attempts=2)
    seen = [waits(settings, [failed(0.5)])[0] for _ in range(200)]
    assert min(seen) >= 0.5
    assert max(seen) > 5


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [(None, 2), (7.5, 2), (7.0, 0), (1.0, 0), (0.0, 0), (-5.0, 0)],
    ids=["no-deadline", "fits", "ends-at-the-deadline", "too-short", "over", "long-over"],
)
def test_a_wait_that_would_not_end_before_the_deadline_is_not_begun(remaining, expected):
    assert len(waits(Retry(), [failed(7.0) for _ in range(5)], remaining)) == expected


def test_the_deadline_is_asked_for_each_time():
    left = iter([100.0, 5.0])
    backoff = Backoff(Retry(max_attempts=9), lambda: next(left))
    assert backoff.wait_after(failed(7.0)) == 7.0
    with pytest.raises(AttemptFailed):
        backoff.wait_after(failed(7.0))


def test_what_may_not_be_repeated_is_not():
    assert waits(Retry(), [failed(may_repeat=False)]) == []
    assert len(waits(Retry(), [failed(), failed(may_repeat=False), failed()])) == 1


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_a_tool_is_run_exactly_so_often(attempts):
    runs = []

    @tool_call(effect="read", retry=Retry(max_attempts=attempts, initial_seconds=0), breaker=None)
    def look() -> None:
        runs.append(1)
        raise ConnectionResetError

    with pytest.raises(ToolCallFailed) as told:
        look()
    assert len(runs) == told.value.attempts == attempts


def test_a_tool_is_not_waited_for_beyond_the_deadline():
    runs = []

    @tool_call(
        effect="read",
        retry=Retry(max_retry_after_seconds=100),
        classify=lambda _: Failure(error_type="rate_limited", retry_after_seconds=50),
    )
    def look() -> None:
        runs.append(1)
        raise RuntimeError

    with tool_context(deadline_seconds=20), pytest.raises(ToolCallFailed) as told:
        look()
    assert len(runs) == 1
    assert told.value.text_for_model == "look is rate limited. Retry after 50 s."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_attempts", value) for value in (0, -1, 1.5, True, "3", None)),
        *(
            (name, value)
            for name in ("initial_seconds", "max_seconds", "max_retry_after_seconds")
            for value in (-1, math.inf, math.nan, True, "1", None)
        ),
    ],
    ids=repr,
)
def test_numbers_that_cannot_work_are_refused_in_one_line(name, value):
    with pytest.raises(PolicyError) as told:
        Retry(**{name: value})
    assert name in str(told.value)
    assert "\n" not in str(told.value)
