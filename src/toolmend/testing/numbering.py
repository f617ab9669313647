"""Numbered ids, the same in every run."""

from __future__ import annotations

import threading
from collections import Counter


class Numbering:
    """Makes ids such as `call_000001`, counted per prefix; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Counter[str] = Counter()

    def next(self, prefix: str) -> str:
        """Return the next id of a prefix."""
        with self._lock:
            self._last[prefix] += 1
            return f"{prefix}_{self._last[prefix]:06d}"
