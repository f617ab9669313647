"""Budgets: how often one tool may fail in one run, across the turns of the model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolmend.telemetry.names import ErrorType

_MAX_RUNS: Final = 10_000


@dataclass(slots=True)
class Spent:
    """What one tool has spent in one run."""

    failures: int = 0
    attempts: int = 0
    last_error_type: ErrorType | None = None


class Budgets:
    """What tools have spent, per run; bounded, thread-safe.

    Args:
        max_runs: pairs of run and tool beyond this number push out the oldest.
    """

    def __init__(self, max_runs: int = _MAX_RUNS) -> None:
        self._max_runs = max_runs
        self._spent: OrderedDict[tuple[str, str], Spent] = OrderedDict()
        self._lock = threading.Lock()

    def spent(self, run_id: str, tool: str) -> Spent:
        """Return what was spent so far."""
        with self._lock:
            found = self._spent.get((run_id, tool))
            return Spent() if found is None else replace(found)

    def add(self, run_id: str, tool: str, *, attempts: int, failed: ErrorType | None) -> Spent:
        """Add one call, with the type of its error where it failed, and return what is spent now."""
        with self._lock:
            found = self._spent.setdefault((run_id, tool), Spent())
            self._spent.move_to_end((run_id, tool))
            found.attempts += attempts
            if failed is not None:
                found.failures += 1
                found.last_error_type = failed
            if len(self._spent) > self._max_runs:
                self._spent.popitem(last=False)
            return replace(found)

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()
