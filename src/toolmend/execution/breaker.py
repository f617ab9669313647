"""Breakers: stop calling a tool that fails, and try it again with a few probes."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from toolmend.errors import PolicyError
from toolmend.execution.numbers import is_count, is_seconds
from toolmend.telemetry.faults import report_fault
from toolmend.telemetry.names import BreakerState

Verdict = Literal["ok", "failed", "ignored", "denied", "gone", "invalid_schema"]
"""What one attempt says about the tool; the last three open the breaker at once."""

_LASTING: Final = ("denied", "gone", "invalid_schema")
_MAX_LATE_PROBES: Final = 100
_LONGEST_GROWTH: Final = 30  # beyond this, doubling says nothing and may overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When the breaker of a tool opens, and how it closes again.

    Attributes:
        failures: opens after so many failures in a row.
        rate: opens when this share of the latest ``window`` calls failed, if they are at least
            ``minimum_calls``.
        minimum_calls: as above.
        window: as above.
        open_seconds: how long it stays open before it lets a probe through.
        probes: how many calls may probe at a time, and have to succeed before it closes.
        probe_seconds: after this time a probe that never came back no longer counts, so that another
            may go.
        longest_open_seconds: a tool that refuses everyone (``denied``, ``gone``) is probed by one call
            at a time, after waits that double up to this.

    Raises:
        PolicyError: a number that cannot work.
    """

    failures: int = 5
    rate: float = 0.5
    minimum_calls: int = 10
    window: int = 20
    open_seconds: float = 60.0
    probes: int = 1
    probe_seconds: float = 60.0
    longest_open_seconds: float = 900.0

    def __post_init__(self) -> None:
        for name in ("failures", "minimum_calls", "window", "probes"):
            value = getattr(self, name)
            if not is_count(value):
                raise PolicyError(f"Breaker({name}=…) is a whole number from 1 up; got {value!r}")
        for name in ("open_seconds", "probe_seconds", "longest_open_seconds"):
            value = getattr(self, name)
            if not is_seconds(value):
                raise PolicyError(
                    f"Breaker({name}=…) is a number of seconds above 0; got {value!r}"
                )
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float):
            raise PolicyError(f"Breaker(rate=…) is a share; got {self.rate!r}")
        if not 0 < self.rate <= 1:
            raise PolicyError(f"Breaker(rate=…) is a share above 0 and up to 1; got {self.rate!r}")
        if self.minimum_calls > self.window:
            raise PolicyError(
                f"Breaker(minimum_calls={self.minimum_calls}) never fits window={self.window}; "
                "make the window larger"
            )


class Permit(NamedTuple):
    """Leave to make one attempt; it has to be given back."""

    generation: int
    probe: int | None


class Refusal(NamedTuple):
    """No leave."""

    retry_seconds: float | None
    """When it is worth asking again; None when nobody knows."""
    reason: str


class Transition(NamedTuple):
    """A change of state."""

    before: BreakerState
    after: BreakerState
    reason: str


class CircuitBreaker:
    """The breaker of one tool, shared by threads and tasks.

    Its lock is held for a few comparisons only, never over a call, and nobody waits: whoever comes while
    it is open, or while others probe, is refused at once. Cancelled calls say nothing about the tool and
    free their permit. What comes back from before a change of state is not counted.

    Args:
        settings: when it opens and closes.
        clock: seconds that never run backwards.
        on_change: told each change of state, outside the lock.
    """

    def __init__(
        self,
        settings: Breaker | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Transition], None] | None = None,
    ) -> None:
        self.settings: Final = settings or Breaker()
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._generation = 0
        self._state: BreakerState = "closed"
        self._reason = ""
        self._lasting = ""  # why it is open for everyone, empty when it is not
        self._openings = 0  # in a row, for everyone
        self._until = 0.0
        self._in_a_row = 0
        self._latest: deque[bool] = deque(maxlen=self.settings.window)
        self._failed = 0  # of the latest
        self._probing: dict[int, float] = {}  # permits of probes, and when they expire
        self._passed = 0  # probes that ended well

    @property
    def state(self) -> BreakerState:
        """The state; an open breaker stays so until a call probes the tool."""
        return self._state

    @property
    def reason(self) -> str:
        """Why it is in this state, empty when it never left the first one."""
        return self._reason

    def is_available(self) -> bool:
        """Tell whether a call would be let through now; nothing changes."""
        with self._lock:
            if self._state == "forced_open":
                return False
            if self._state == "open":
                return self._clock() >= self._until
            return self._state != "half_open" or self._has_room(self._clock())

    def acquire(self) -> Permit | Refusal:
        """Return a permit, which has to be released, or a refusal; never waits."""
        with self._lock:
            if self._state == "closed":
                return Permit(self._generation, None)
            made, answer = self._admit(self._clock())
        self._tell(made)
        return answer

    def release(self, permit: Permit, verdict: Verdict) -> None:
        """Give a permit back, with what the attempt says about the tool."""
        with self._lock:
            if permit.generation != self._generation or self._state == "disabled":
                return
            if self._state == "half_open":
                made = self._judge_probe(permit, verdict)
            else:
                made = self._judge(verdict)
        self._tell(made)

    def force_open(self) -> None:
        """Refuse every call until ``reset``."""
        self._set("forced_open", "forced")

    def disable(self) -> None:
        """Let every call through and count nothing, until ``reset``."""
        self._set("disabled", "disabled")

    def reset(self) -> None:
        """Close it and forget what it has seen."""
        self._set("closed", "reset")

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()

    def _set(self, state: BreakerState, reason: str) -> None:
        with self._lock:
            made = self._change(state, reason)
        self._tell(made)

    def _tell(self, made: Transition | None) -> None:
        if made is None or made.before == made.after or self._on_change is None:
            return
        try:
            self._on_change(made)
        except Exception as error:  # noqa: BLE001 - whoever listens must not break the call
            report_fault("tool", error)

    def _change(self, state: BreakerState, reason: str) -> Transition:
        made = Transition(self._state, state, reason)
        self._state, self._reason = state, reason
        self._generation += 1
        self._in_a_row = self._failed = self._passed = 0
        self._latest.clear()
        self._probing.clear()
        if state not in ("open", "half_open"):
            self._lasting = ""
            self._openings = 0
        return made

    def _open(self, reason: str) -> Transition:
        made = self._change("open", reason)
        wait = self.settings.open_seconds
        if self._lasting:
            growth = 2 ** min(self._openings, _LONGEST_GROWTH)
            wait = max(wait, min(wait * growth, self.settings.longest_open_seconds))
            self._openings += 1
        self._until = self._clock() + wait
        return made

    def _admit(self, now: float) -> tuple[Transition | None, Permit | Refusal]:
        if self._state == "disabled":
            return None, Permit(self._generation, None)
        if self._state == "forced_open":
            return None, Refusal(None, self._reason)
        made = None
        if self._state == "open":
            if now < self._until:
                return None, Refusal(self._until - now, self._reason)
            made = self._change("half_open", "waited")
        if not self._has_room(now):
            return made, Refusal(self._next_expiry(now), "half_open")
        number = next(self._numbers)
        self._probing[number] = now + self.settings.probe_seconds
        # A late answer still counts, but answers that never come must not pile up.
        if len(self._probing) > self.settings.probes + _MAX_LATE_PROBES:
            del self._probing[next(iter(self._probing))]
        return made, Permit(self._generation, number)

    def _has_room(self, now: float) -> bool:
        busy = sum(1 for expiry in self._probing.values() if now < expiry)
        return busy + self._passed < self._probes()

    def _probes(self) -> int:
        return 1 if self._lasting else self.settings.probes

    def _next_expiry(self, now: float) -> float | None:
        return min(
            (expiry - now for expiry in self._probing.values() if now < expiry), default=None
        )

    def _judge_probe(self, permit: Permit, verdict: Verdict) -> Transition | None:
        if permit.probe is None or self._probing.pop(permit.probe, None) is None:
            return None
        if verdict == "ok":
            self._passed += 1
            if self._passed >= self._probes():
                return self._change("closed", "probe_ok")
        elif verdict in _LASTING:
            self._lasting = verdict
            return self._open(verdict)
        elif verdict == "failed":
            return self._open("probe_failed")
        return None

    def _judge(self, verdict: Verdict) -> Transition | None:
        if verdict in _LASTING:
            self._lasting = verdict
            return self._open(verdict)
        if verdict == "ignored" or self._state != "closed":
            return None
        has_failed = verdict == "failed"
        self._in_a_row = self._in_a_row + 1 if has_failed else 0
        if len(self._latest) == self._latest.maxlen:
            self._failed -= self._latest[0]
        self._latest.append(has_failed)
        self._failed += has_failed
        if not has_failed:
            return None
        if self._in_a_row >= self.settings.failures:
            return self._open("failures")
        seen = len(self._latest)
        if seen >= self.settings.minimum_calls and self._failed >= self.settings.rate * seen:
            return self._open("rate")
        return None
