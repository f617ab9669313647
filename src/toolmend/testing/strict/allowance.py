"""What a judged history may leave open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a judged history may leave open, for callers that still run tools.

    Attributes:
        open_tail: Calls of the last batch may be open if nothing but its own results follows.
        open_ids: The same, for these ids only.
        orphans: Results without a call are no problem.
        server_state: Earlier messages are on the server: what only the whole history can tell is
            no problem.
    """

    open_tail: bool = False
    open_ids: frozenset[str] = frozenset()
    orphans: bool = False
    server_state: bool = False

    def forbidden(self, open_calls: Counter[str], *, is_tail: bool) -> tuple[str, ...]:
        """Return the ids still open that may not be; `is_tail` tells a batch that ends the list."""
        open_ids = tuple(call_id for call_id, count in open_calls.items() if count > 0)
        if not is_tail:
            return open_ids
        if self.open_tail:
            return ()
        return tuple(call_id for call_id in open_ids if call_id not in self.open_ids)
