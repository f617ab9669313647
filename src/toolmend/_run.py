"""Run: one call of a decorated function, from its history to the end of its stream."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from toolmend.mend import Repair
from toolmend.telemetry.faults import guard, report_fault
from toolmend.telemetry.rejections import is_history_rejection

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from toolmend.errors import BrokenHistoryError
    from toolmend.telemetry.model_calls import ModelCallReport

OnRepair = Callable[[Repair], object]


class Run:
    """One call of a decorated function.

    Layers nest: a framework's hook over an SDK's. Every layer mends, since something between them may
    cut the history again; the outermost owns span, counters and log.

    Args:
        args: positional arguments that the function gets.
        kwargs: keyword arguments that the function gets.
        report: telemetry of the call; None for an inner layer, and for calls that count nowhere.
        repaired: what was changed, None when nothing was.
        refusal: raised instead of the call.
        on_repair: the user's callback.
    """

    __slots__ = ("_on_repair", "_refusal", "_repaired", "args", "is_over", "kwargs", "report")

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        report: ModelCallReport | None = None,
        repaired: Repair | None = None,
        refusal: BrokenHistoryError | None = None,
        on_repair: OnRepair | None = None,
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.report = report
        self.is_over = False
        self._on_repair = on_repair if report is not None and repaired is not None else None
        self._repaired = repaired
        self._refusal = refusal

    def tell(self) -> None:
        """Hand the repair to the user's callback, or raise the refusal.

        Raises:
            BrokenHistoryError: under ``mode="raise"``.
        """
        self._start()
        if self._on_repair is None or self._repaired is None:
            return
        with guard("on_repair"):
            answer = self._on_repair(self._repaired)
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError("on_repair is async, and the decorated function is not")

    async def tell_async(self) -> None:
        """Do the same for an async function, whose callback may be async too.

        Raises:
            BrokenHistoryError: under ``mode="raise"``.
        """
        self._start()
        if self._on_repair is None or self._repaired is None:
            return
        with guard("on_repair"):
            answer = self._on_repair(self._repaired)
            if inspect.isawaitable(answer):
                await answer

    def _start(self) -> None:
        if self.report is not None:
            self.report.start()
        if self._refusal is not None:
            self.succeed()
            raise self._refusal

    def inside(self) -> AbstractContextManager[None]:
        """Mark the work inside as part of this call, with its span as the current one."""
        return _Inside(self)

    def first_item(self) -> None:
        """Note that an item came: by now every layer inside has reported."""
        if self.report is not None:
            self.report.count()

    def succeed(self) -> None:
        """Note that the call is over."""
        self.is_over = True
        if self.report is not None:
            self.report.end()

    def fail(self, error: BaseException) -> None:
        """Note what the call raised."""
        self.is_over = True
        if self.report is not None:
            self.report.end(error, is_rejected=is_history_rejection(error))

    def end_with(self, future: Any) -> None:
        """Note how a future ended."""
        with guard("stream"):
            if future.cancelled():
                self.fail(asyncio.CancelledError())
            elif future.exception() is not None:
                self.fail(future.exception())
            else:
                self.succeed()


_outermost: Final[ContextVar[Run | None]] = ContextVar("toolmend_model_call", default=None)


def outermost_run() -> Run | None:
    """Return the call that the work at hand is part of, None when there is none or it is over."""
    run = _outermost.get()
    return None if run is None or run.is_over else run


class _Inside:
    """Sets the mark and the span around one stretch of work, and takes both off again."""

    __slots__ = ("_run", "_span", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._span: AbstractContextManager[None] | None = None
        self._token: Token[Run | None] | None = None

    def __enter__(self) -> None:
        report = self._run.report
        if report is None:
            return
        self._token = _outermost.set(self._run)
        try:
            span = report.current()
            span.__enter__()
            self._span = span
        except Exception as error:  # noqa: BLE001 - the guard around our own code
            report_fault("stream", error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._token is None:
            return
        # Closed from another task, as the event loop does with what was left behind: there the mark
        # was never set, so there is nothing to take off.
        try:
            _outermost.reset(self._token)
        except ValueError:
            return
        if self._span is not None:
            with guard("stream"):
                self._span.__exit__(None, None, None)
