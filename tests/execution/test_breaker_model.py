"""The breaker against a model of its own: whatever happens in whatever order, both agree."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from tests.execution.stepping_clock import SteppingClock
from toolmend.execution.breaker import Breaker, CircuitBreaker, Permit

LASTING = {"denied", "gone", "invalid_schema"}
VERDICTS = st.sampled_from(
    ("ok", "failed", "failed", "ignored", "denied", "gone", "invalid_schema")
)


class BreakerAndModel(RuleBasedStateMachine):
    """The model keeps a list of everything since the last change, and decides from that list alone."""

    permits = Bundle("permits")

    @initialize(
        failures=st.integers(1, 4),
        window=st.integers(2, 6),
        minimum=st.integers(1, 2),
        rate=st.sampled_from((0.3, 0.5, 1.0)),
        probes=st.integers(1, 3),
        probe_seconds=st.sampled_from((7, 25)),
    )
    def start(self, failures, window, minimum, rate, probes, probe_seconds):
        self.clock = SteppingClock()
        self.rules = Breaker(
            failures=failures,
            window=window,
            minimum_calls=minimum,
            rate=rate,
            probes=probes,
            open_seconds=10,
            probe_seconds=probe_seconds,
            longest_open_seconds=35,
        )
        self.heard = []
        self.breaker = CircuitBreaker(self.rules, clock=self.clock, on_change=self.heard.append)
        self.state = "closed"
        self.age = 0  # of the state: how many changes there were
        self.seen = []  # verdicts that count, since the last change
        self.out = {}  # probes that are out: permit -> when it left
        self.passed = 0
        self.lasting = False
        self.openings = 0
        self.reopens_at = None
        self.changes = 0

    def change(self, state):
        self.changes += self.state != state
        self.state = state
        self.age += 1
        self.seen, self.out, self.passed = [], {}, 0
        if state not in ("open", "half_open"):
            self.lasting, self.openings = False, 0

    def open(self):
        wait = 10.0
        if self.lasting:
            wait = max(wait, min(10.0 * 2**self.openings, 35.0))
            self.openings += 1
        self.change("open")
        self.reopens_at = self.clock.now + wait

    def busy(self):
        return [
            left for left in self.out.values() if self.clock.now < left + self.rules.probe_seconds
        ]

    def allowed(self):
        return 1 if self.lasting else self.rules.probes

    @rule(target=permits)
    def acquire(self):
        if self.state == "open" and self.clock.now >= self.reopens_at:
            self.change("half_open")
        answer = self.breaker.acquire()
        lets = self.state in ("closed", "disabled") or (
            self.state == "half_open" and len(self.busy()) + self.passed < self.allowed()
        )
        assert isinstance(answer, Permit) == lets, (answer, self.state)
        if not lets:
            assert answer.retry_seconds is None or answer.retry_seconds > 0
            return multiple()
        if self.state == "half_open":
            assert answer.probe is not None
            self.out[answer] = self.clock.now
        return (answer, self.age)

    @rule(held=consumes(permits), verdict=VERDICTS)
    def release(self, held, verdict):
        permit, age = held
        self.breaker.release(permit, verdict)
        if age != self.age or self.state == "disabled":
            return
        if self.state == "half_open":
            self.judge_probe(permit, verdict)
        elif verdict in LASTING:
            self.lasting = True
            self.open()
        elif verdict != "ignored":
            self.seen.append(verdict)
            self.judge()

    def judge_probe(self, permit, verdict):
        del self.out[permit]
        if verdict == "ok":
            self.passed += 1
            if self.passed >= self.allowed():
                self.change("closed")
        elif verdict != "ignored":
            self.lasting = self.lasting or verdict in LASTING
            self.open()

    def judge(self):
        if self.seen[-1] == "ok":
            return
        row = self.seen[-self.rules.failures :]
        recent = self.seen[-self.rules.window :]
        share = recent.count("failed") / len(recent)
        if (len(row) == self.rules.failures and "ok" not in row) or (
            len(recent) >= self.rules.minimum_calls and share >= self.rules.rate
        ):
            self.open()

    @rule(held=consumes(permits))
    def lose(self, held):
        """A permit never comes back: its probe expires."""

    @rule(seconds=st.sampled_from((0.0, 1.0, 6.0, 7.0, 10.0, 40.0)))
    def wait(self, seconds):
        self.clock.forward(seconds)

    @rule()
    def force_open(self):
        self.breaker.force_open()
        self.change("forced_open")

    @rule()
    def disable(self):
        self.breaker.disable()
        self.change("disabled")

    @rule()
    def reset(self):
        self.breaker.reset()
        self.change("closed")

    @invariant()
    def states_agree(self):
        if not hasattr(self, "state"):
            return
        assert self.breaker.state == self.state
        assert len(self.heard) == self.changes
        for earlier, later in zip(self.heard, self.heard[1:], strict=False):
            assert earlier.after == later.before

    @invariant()
    def never_more_probes_than_allowed(self):
        if getattr(self, "state", "") == "half_open":
            assert len(self.busy()) <= self.rules.probes

    @invariant()
    def availability_tells_the_truth(self):
        if not hasattr(self, "state"):
            return
        lets = self.state in ("closed", "disabled")
        if self.state == "open":
            lets = self.clock.now >= self.reopens_at
        elif self.state == "half_open":
            lets = len(self.busy()) + self.passed < self.allowed()
        assert self.breaker.is_available() == lets

    def teardown(self):
        """From wherever it ended, an open breaker closes again after good probes."""
        if getattr(self, "state", "") not in ("open", "half_open"):
            return
        for _ in range(self.rules.probes):
            self.clock.forward(40.0)
            permit = self.breaker.acquire()
            if isinstance(permit, Permit):
                self.breaker.release(permit, "ok")
        assert self.breaker.state == "closed"


TestBreakerAndModel = BreakerAndModel.TestCase
TestBreakerAndModel.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
