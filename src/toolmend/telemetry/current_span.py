"""The current span: which span the work at hand runs under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context, trace

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType


class CurrentSpan:
    """Makes a span the current one for a stretch of work; None leaves the current one as it is."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span | None) -> None:
        self._span = span
        self._token: Token[context.Context] | None = None

    def __enter__(self) -> None:
        if self._span is not None:
            self._token = context.attach(trace.set_span_in_context(self._span))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._token is not None:
            context.detach(self._token)
