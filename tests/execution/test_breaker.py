"""The breaker of a tool: when it opens, whom it lets through, and how it closes again."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, get_args

import pytest

from tests.execution.stepping_clock import SteppingClock
from toolmend.errors import PolicyError
from toolmend.execution.breaker import (
    Breaker,
    CircuitBreaker,
    Permit,
    Refusal,
    Transition,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERYONE = ("denied", "gone", "invalid_schema")


class Bench:
    """A breaker, its clock, and what its listener heard."""

    def __init__(self, **settings: float) -> None:
        self.clock = SteppingClock()
        self.heard: list[tuple[str, str, str]] = []
        self.breaker = CircuitBreaker(
            Breaker(**settings),
            clock=self.clock,
            on_change=lambda change: self.heard.append(tuple(change)),
        )

    def permit(self) -> Permit:
        answer = self.breaker.acquire()
        assert isinstance(answer, Permit), answer
        return answer

    def refusal(self) -> Refusal:
        answer = self.breaker.acquire()
        assert isinstance(answer, Refusal), answer
        return answer

    def call(self, verdict: Verdict) -> None:
        self.breaker.release(self.permit(), verdict)

    def calls(self, letters: str) -> None:
        for letter in letters:
            self.call({"o": "ok", "f": "failed", "i": "ignored"}[letter])

    def opened(self) -> Bench:
        self.calls("f" * self.breaker.settings.failures)
        assert self.breaker.state == "open"
        return self


@pytest.mark.parametrize(
    ("settings", "calls", "state"),
    [
        pytest.param({}, "ffff", "closed", id="one-short-of-the-row"),
        pytest.param({}, "fffff", "open", id="five-in-a-row"),
        pytest.param({}, "ffffoffff", "closed", id="a-good-one-resets-the-row"),
        pytest.param({}, "ffffiiif", "open", id="ignored-ones-do-not-reset-the-row"),
        pytest.param({}, "iiiiiiiiiiii", "closed", id="ignored-ones-say-nothing"),
        pytest.param({"failures": 1}, "f", "open", id="first-failure"),
        pytest.param({"failures": 2}, "fof", "closed", id="row-of-two-broken"),
        pytest.param({"failures": 2}, "off", "open", id="row-of-two"),
        pytest.param({}, "ofofofofo", "closed", id="half-of-nine"),
        pytest.param({}, "ofofofofof", "open", id="half-of-ten"),
        pytest.param({}, "ofofofofoo", "closed", id="four-of-ten"),
        pytest.param({}, "ofofofofoofof", "closed", id="six-of-thirteen"),
        pytest.param({}, "ofofofofoofoff", "open", id="seven-of-fourteen"),
        pytest.param({"rate": 1.0, "failures": 99}, "f" * 9, "closed", id="whole-rate-too-few"),
        pytest.param({"rate": 1.0, "failures": 99}, "f" * 10, "open", id="whole-rate"),
        pytest.param({"rate": 1.0, "failures": 99}, "o" + "f" * 19, "closed", id="not-quite-whole"),
        pytest.param(
            {"rate": 1.0, "failures": 99}, "o" + "f" * 20, "open", id="the-good-one-left-the-window"
        ),
        pytest.param({"rate": 0.1}, "o" * 9 + "f", "open", id="a-tenth"),
        pytest.param({"rate": 0.1}, "o" * 10 + "f", "closed", id="one-of-eleven"),
        pytest.param(
            {"rate": 0.2, "window": 10, "failures": 9},
            "f" + "o" * 9 + "f",
            "closed",
            id="first-failure-left-the-window",
        ),
        pytest.param(
            {"rate": 0.2, "window": 10, "failures": 9},
            "of" + "o" * 8 + "f",
            "open",
            id="first-failure-still-in-the-window",
        ),
        pytest.param(
            {"minimum_calls": 2, "failures": 9}, "of", "open", id="minimum-of-two-reached"
        ),
        pytest.param(
            {"minimum_calls": 3, "failures": 9}, "of", "closed", id="minimum-of-three-not-reached"
        ),
        pytest.param({"minimum_calls": 1, "failures": 9}, "f", "open", id="minimum-of-one"),
        pytest.param(
            {"minimum_calls": 2, "failures": 9}, "iif", "closed", id="ignored-ones-are-no-calls"
        ),
    ],
)
def test_opens(settings, calls, state):
    bench = Bench(**settings)
    bench.calls(calls)
    assert bench.breaker.state == state


@pytest.mark.parametrize(
    ("calls", "reason"), [("fffff", "failures"), ("of" * 5, "rate")], ids=["row", "rate"]
)
def test_says_why_it_opened(calls, reason):
    bench = Bench()
    bench.calls(calls)
    assert (bench.breaker.reason, bench.heard) == (reason, [("closed", "open", reason)])


def test_refuses_while_open_and_says_how_long():
    bench = Bench().opened()
    assert bench.refusal() == Refusal(60.0, "failures")
    bench.clock.forward(59.5)
    assert bench.refusal() == Refusal(0.5, "failures")
    assert not bench.breaker.is_available()
    bench.clock.forward(0.5)
    assert bench.breaker.is_available()
    assert bench.breaker.state == "open"  # until somebody probes
    assert bench.permit().probe is not None
    assert bench.breaker.state == "half_open"


@pytest.mark.parametrize("probes", [1, 3])
def test_half_open_lets_so_many_through(probes):
    bench = Bench(probes=probes).opened()
    bench.clock.forward(60)
    permits = [bench.permit() for _ in range(probes)]
    assert bench.refusal() == Refusal(60.0, "half_open")
    assert not bench.breaker.is_available()
    for permit in permits[:-1]:
        bench.breaker.release(permit, "ok")
        assert bench.breaker.state == "half_open"
        bench.refusal()  # good probes count, so no further one is needed
    bench.breaker.release(permits[-1], "ok")
    assert bench.breaker.state == "closed"
    assert bench.heard[-2:] == [
        ("open", "half_open", "waited"),
        ("half_open", "closed", "probe_ok"),
    ]


@pytest.mark.parametrize(
    ("verdict", "state", "next_wait"),
    [
        ("ok", "closed", None),
        ("failed", "open", 60.0),
        ("ignored", "half_open", None),
        ("denied", "open", 60.0),
        ("gone", "open", 60.0),
        ("invalid_schema", "open", 60.0),
    ],
)
def test_probe(verdict, state, next_wait):
    bench = Bench().opened()
    bench.clock.forward(60)
    bench.call(verdict)
    assert bench.breaker.state == state
    if next_wait is None:
        bench.permit()  # closed again, or the probe is free for the next one
    else:
        assert bench.refusal().retry_seconds == next_wait


def test_closing_forgets_what_was():
    bench = Bench().opened()
    bench.clock.forward(60)
    bench.call("ok")
    bench.calls("ffff")
    assert bench.breaker.state == "closed"
    bench.calls("f")
    assert bench.breaker.state == "open"


@pytest.mark.parametrize("verdict", EVERYONE)
def test_opens_at_once_for_everyone_and_waits_longer_each_time(verdict):
    bench = Bench(probes=3)
    bench.call(verdict)
    assert (bench.breaker.state, bench.breaker.reason) == ("open", verdict)
    waits = []
    for _ in range(7):
        wait = bench.refusal().retry_seconds
        waits.append(wait)
        bench.clock.forward(wait)
        permit = bench.permit()
        bench.refusal()  # one probe at a time, whatever the settings say
        bench.breaker.release(permit, verdict)
    assert waits == [60, 120, 240, 480, 900, 900, 900]


def test_growth_goes_on_when_a_probe_fails_otherwise_and_starts_anew_after_closing():
    bench = Bench()
    bench.call("denied")
    bench.clock.forward(60)
    bench.call("failed")
    assert bench.refusal() == Refusal(120.0, "probe_failed")
    bench.clock.forward(120)
    bench.call("ok")
    assert bench.breaker.state == "closed"
    bench.call("gone")
    assert bench.refusal() == Refusal(60.0, "gone")


def test_growth_begins_with_the_probe_that_is_refused_for_everyone():
    bench = Bench(probes=3).opened()
    bench.clock.forward(60)
    bench.call("denied")
    assert bench.refusal() == Refusal(60.0, "denied")
    bench.clock.forward(60)
    bench.permit()
    bench.refusal()
    bench.clock.forward(60)
    bench.call("failed")
    assert bench.refusal() == Refusal(120.0, "probe_failed")


def test_the_longest_wait_does_not_shorten_a_longer_one():
    bench = Bench(open_seconds=1000, longest_open_seconds=900)
    bench.call("denied")
    assert bench.refusal().retry_seconds == 1000


def test_growth_never_overflows():
    bench = Bench(open_seconds=1e-3, longest_open_seconds=900)
    bench.call("denied")
    for _ in range(1200):
        bench.clock.forward(900)
        bench.call("denied")
    assert bench.refusal().retry_seconds == 900


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_what_comes_from_before_a_change_is_dropped(verdict):
    bench = Bench()
    early = bench.permit()
    bench.opened()
    bench.breaker.release(early, verdict)
    assert bench.breaker.state == "open"
    bench.clock.forward(60)
    probe = bench.permit()
    bench.breaker.release(early, verdict)
    assert bench.breaker.state == "half_open"
    bench.breaker.release(probe, "ok")
    for _ in range(9):
        bench.breaker.release(early, verdict)
    assert bench.breaker.state == "closed"


def test_a_probe_of_an_earlier_half_open_is_dropped():
    bench = Bench(probes=2).opened()
    bench.clock.forward(60)
    early, late = bench.permit(), bench.permit()
    bench.breaker.release(early, "failed")
    bench.clock.forward(60)
    bench.permit()
    bench.breaker.release(late, "ok")
    bench.breaker.release(late, "failed")
    assert bench.breaker.state == "half_open"


def test_a_probe_of_an_earlier_half_open_takes_no_place():
    bench = Bench(probes=2, probe_seconds=300).opened()
    bench.clock.forward(60)
    bench.permit()
    bench.call("failed")
    bench.clock.forward(60)
    bench.permit()
    bench.permit()
    bench.refusal()


def test_a_probe_counts_once():
    bench = Bench(probes=2).opened()
    bench.clock.forward(60)
    permit = bench.permit()
    bench.breaker.release(permit, "ok")
    bench.breaker.release(permit, "ok")
    assert bench.breaker.state == "half_open"


def test_a_lost_probe_expires():
    bench = Bench(probe_seconds=30).opened()
    bench.clock.forward(60)
    bench.permit()
    bench.clock.forward(29)
    assert bench.refusal() == Refusal(1.0, "half_open")
    bench.clock.forward(1)
    assert bench.breaker.is_available()
    bench.call("ok")
    assert bench.breaker.state == "closed"


def test_the_answer_of_a_slow_probe_counts_when_it_comes():
    """Else a tool that takes longer than a probe may would never be called again."""
    bench = Bench(probe_seconds=30).opened()
    bench.clock.forward(60)
    slow = bench.permit()
    bench.clock.forward(40)
    bench.permit()
    bench.breaker.release(slow, "ok")
    assert bench.breaker.state == "closed"


def test_probes_that_never_come_back_do_not_pile_up():
    bench = Bench(probe_seconds=1, probes=2).opened()
    bench.clock.forward(60)
    for _ in range(1000):
        bench.permit()
        bench.clock.forward(1)
    assert len(bench.breaker._probing) <= 102
    bench.call("ok")
    bench.call("ok")
    assert bench.breaker.state == "closed"


def _open(bench):
    bench.opened()


def _half_open(bench):
    bench.opened()
    bench.clock.forward(60)
    bench.permit()


@pytest.mark.parametrize(
    "before", [lambda _: None, _open, _half_open], ids=["closed", "open", "half"]
)
def test_forced_open_refuses_until_it_is_reset(before):
    bench = Bench()
    before(bench)
    bench.breaker.force_open()
    bench.clock.forward(1e6)
    assert bench.refusal() == Refusal(None, "forced")
    assert not bench.breaker.is_available()
    bench.breaker.reset()
    assert (bench.breaker.state, bench.breaker.reason) == ("closed", "reset")
    bench.call("ok")


def test_what_comes_back_while_it_is_forced_open_says_nothing():
    bench = Bench()
    permit = bench.permit()
    bench.breaker.force_open()
    bench.breaker.release(permit, "denied")
    assert bench.breaker.state == "forced_open"


@pytest.mark.parametrize(
    "before", [lambda _: None, _open, _half_open], ids=["closed", "open", "half"]
)
def test_disabled_lets_everyone_through_and_counts_nothing(before):
    bench = Bench()
    before(bench)
    bench.breaker.disable()
    for verdict in get_args(Verdict) * 10:
        bench.call(verdict)
    assert bench.breaker.state == "disabled"
    assert bench.breaker.is_available()
    bench.breaker.reset()
    bench.calls("ffff")
    assert bench.breaker.state == "closed"


def test_reset_forgets_how_often_it_opened_for_everyone():
    bench = Bench()
    bench.call("denied")
    bench.clock.forward(60)
    bench.call("denied")
    bench.breaker.reset()
    bench.call("denied")
    assert bench.refusal().retry_seconds == 60


def test_a_change_to_the_same_state_is_no_change():
    bench = Bench()
    bench.breaker.reset()
    bench.breaker.force_open()
    bench.breaker.force_open()
    bench.breaker.reset()
    assert [change[:2] for change in bench.heard] == [
        ("closed", "forced_open"),
        ("forced_open", "closed"),
    ]


def test_a_listener_may_use_the_breaker():
    """It is told outside the lock; a thread of its own, so that a deadlock is a failure and no hang."""
    seen = []
    clock = SteppingClock()

    def listen(change: Transition) -> None:
        seen.append((change.after, breaker.state, breaker.is_available()))
        answer = breaker.acquire()
        if isinstance(answer, Permit):
            breaker.release(answer, "ignored")
        if change.after == "half_open":
            breaker.reset()

    breaker = CircuitBreaker(Breaker(failures=1, probes=2), clock=clock, on_change=listen)

    def use() -> None:
        permit = breaker.acquire()
        assert isinstance(permit, Permit)
        breaker.release(permit, "failed")
        clock.forward(60)
        breaker.acquire()
        breaker.force_open()

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(10)
    assert not user.is_alive()
    assert seen == [
        ("open", "open", False),
        ("half_open", "half_open", True),
        ("closed", "closed", True),
        ("forced_open", "forced_open", False),
    ]


@pytest.mark.parametrize("raised", [RuntimeError, ValueError])
def test_a_listener_that_raises_breaks_no_call(raised):
    def listen(_: Transition) -> None:
        raise raised

    clock = SteppingClock()
    breaker = CircuitBreaker(Breaker(failures=1), clock=clock, on_change=listen)
    permit = breaker.acquire()
    assert isinstance(permit, Permit)
    breaker.release(permit, "failed")
    clock.forward(60)
    probe = breaker.acquire()
    assert isinstance(probe, Permit)
    breaker.release(probe, "ok")
    breaker.force_open()
    assert breaker.state == "forced_open"


def _refused(settings: dict[str, object]) -> str:
    with pytest.raises(PolicyError) as told:
        Breaker(**settings)
    return str(told.value)


WHOLE: Sequence[object] = (0, -1, 1.0, 1.5, True, "5", None, math.nan, [])
SECONDS: Sequence[object] = (0, -1, True, "5", None, math.nan, math.inf, -math.inf, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, one)
            for name in ("failures", "minimum_calls", "window", "probes")
            for one in WHOLE
        ),
        *(
            (name, one)
            for name in ("open_seconds", "probe_seconds", "longest_open_seconds")
            for one in SECONDS
        ),
        *(("rate", one) for one in (0, -0.1, 1.1, True, "0.5", None, math.nan, math.inf)),
        ("minimum_calls", 21),
        ("window", 9),
    ],
    ids=lambda value: repr(value),
)
def test_numbers_that_cannot_work_are_refused_in_one_line(name, value):
    told = _refused({name: value})
    assert name in told
    assert "\n" not in told
