"""Retry: whether a failed attempt is worth another one, and how long to wait before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from toolmend.errors import PolicyError
from toolmend.execution.failures import AttemptFailed
from toolmend.execution.numbers import is_count, is_seconds

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failed call is tried again, and when.

    Waits are random between 0 and a bound that doubles from ``initial_seconds`` up to ``max_seconds``, so
    that callers who failed together do not come back together. A ``Retry-After`` of the other side is
    waited for in full where it is no longer than ``max_retry_after_seconds``. A wait that would not end
    before the deadline of the call is not begun.

    Attributes:
        max_attempts: attempts in all, the first included; 1 never repeats.
        initial_seconds: bound of the first wait.
        max_seconds: bound that no wait exceeds.
        max_retry_after_seconds: a longer ``Retry-After`` ends the call, and the model is told.

    Raises:
        PolicyError: a number that cannot work.
    """

    max_attempts: int = 3
    initial_seconds: float = 0.5
    max_seconds: float = 20.0
    max_retry_after_seconds: float = 60.0

    def __post_init__(self) -> None:
        attempts: object = self.max_attempts
        if not is_count(attempts):
            raise PolicyError(
                f"Retry(max_attempts=…) is a whole number from 1 up; got {attempts!r}"
            )
        for name in ("initial_seconds", "max_seconds", "max_retry_after_seconds"):
            value: object = getattr(self, name)
            if not is_seconds(value, least=0):
                raise PolicyError(f"Retry({name}=…) is a number of seconds from 0; got {value!r}")


class Backoff:
    """The waits of one call, decided by tenacity.

    Args:
        settings: how often, and when.
        remaining_seconds: tells how much time the call has left, None for no limit.
    """

    def __init__(self, settings: Retry, remaining_seconds: Callable[[], float | None]) -> None:
        controller = Retrying(
            retry=retry_if_exception(_may_repeat),
            stop=_Stop(settings, remaining_seconds),
            wait=_Wait(settings),
            reraise=True,
        )
        controller.begin()
        self._controller = controller
        self._state = RetryCallState(controller, None, (), {})

    def wait_after(self, failed: AttemptFailed) -> float:
        """Return how many seconds to wait before the next attempt.

        Raises:
            AttemptFailed: there is none; the one that was given.
        """
        self._state.set_exception((type(failed), failed, failed.__traceback__))
        wait: Any = self._controller.iter(retry_state=self._state)  # seconds, or it raises
        self._state.prepare_for_next_attempt()
        return float(wait)


def _may_repeat(error: BaseException) -> bool:
    return isinstance(error, AttemptFailed) and error.may_repeat


def _retry_after(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome is not None else None
    return error.failure.retry_after_seconds if isinstance(error, AttemptFailed) else None


class _Stop(stop_base):
    def __init__(self, settings: Retry, remaining_seconds: Callable[[], float | None]) -> None:
        self._settings = settings
        self._remaining_seconds = remaining_seconds

    def __call__(self, retry_state: RetryCallState) -> bool:
        if retry_state.attempt_number >= self._settings.max_attempts:
            return True
        asked = _retry_after(retry_state)
        if asked is not None and asked > self._settings.max_retry_after_seconds:
            return True
        remaining = self._remaining_seconds()
        return remaining is not None and retry_state.upcoming_sleep >= remaining


class _Wait(wait_base):
    def __init__(self, settings: Retry) -> None:
        self._jitter = wait_random_exponential(
            multiplier=settings.initial_seconds, max=settings.max_seconds
        )

    def __call__(self, retry_state: RetryCallState) -> float:
        return max(self._jitter(retry_state), _retry_after(retry_state) or 0.0)
