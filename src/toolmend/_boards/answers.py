"""Answers: what a live Prometheus says to each query of a board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolmend._boards.prometheus import QueryRefusedError, Sample
from toolmend._boards.reading import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolmend._boards.prometheus import Prometheus
    from toolmend._boards.reading import Board, Query

VARIABLES: Final[Mapping[str, str]] = {
    "job": ".*",
    "provider": ".*",
    "model": ".*",
    "tool": ".*",
    "service": ".*",
    "__range": "6h",
    "__interval": "5m",
    "__rate_interval": "4m",
}
"""What Grafana fills in when a board is opened: everything, the last six hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A query and what it found.

    Attributes:
        query: the query as the board has it.
        samples: the series and their values; None when it was not asked, because only Loki or Tempo
            could answer.
        values: what a variable offers.
        refusal: why Prometheus refused it.
    """

    query: Query
    samples: tuple[Sample, ...] | None = None
    values: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it was asked and found nothing."""
        return not self.refusal and not self.values and self.samples == ()


def ask(
    prometheus: Prometheus, board: Board, variables: Mapping[str, str] = VARIABLES
) -> Iterator[Answer]:
    """Ask everything that a board asks, in its order, one query at a time.

    Raises:
        PrometheusError: the server is not there, or is none.
    """
    for query in board.queries:
        if query.language != "promql":
            yield Answer(query=query)
            continue
        text = fill(query.text, variables)
        try:
            if query.label:
                values = tuple(prometheus.label_values(text, query.label))
                yield Answer(query=query, samples=(), values=values)
            else:
                yield Answer(query=query, samples=tuple(prometheus.query(text)))
        except QueryRefusedError as error:
            yield Answer(query=query, refusal=str(error))
