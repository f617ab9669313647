"""Scores: what telemetry cannot know, counted while the demo runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolmend.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolmend._demo.cast import Role
    from toolmend._demo.tally import Counted


@dataclass(slots=True, kw_only=True)
class ThreadScore:
    """The score of one conversation.

    Attributes:
        role: whose conversation it is.
        requests: requests sent.
        refused: those whose history, as the application has it, the validator refuses.
        firsts: calls without a result that telemetry counted for the first time.
        repeats: the same calls, counted again in later requests.
    """

    role: Role
    requests: int = 0
    refused: int = 0
    firsts: int = 0
    repeats: int = 0

    def add(self, heard: Iterable[Counted], *, is_legal: bool) -> None:
        """Add one request, and what telemetry counted for it."""
        self.requests += 1
        self.refused += not is_legal
        for counted in heard:
            if counted.metric == names.TOOL_CALLS_DANGLING.name:
                if counted.attributes[names.RECURRENCE] == "first":
                    self.firsts += counted.amount
                else:
                    self.repeats += counted.amount


@dataclass(slots=True)
class Scores:
    """The scores of a run.

    Attributes:
        threads: by id of the conversation.
        troubles: how often each trouble came up.
        origins: how often a cause, as telemetry names it, came from a trouble.
        refused_all_the_same: requests that the provider refused in spite of everything.
    """

    threads: dict[str, ThreadScore] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    origins: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused_all_the_same: int = 0
