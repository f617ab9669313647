"""Run: one call of a decorated function, from its history to the end of its stream."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from toolmend._abandoned import Abandoned
from toolmend.mend import Repair
from toolmend.telemetry.faults import guard
from toolmend.telemetry.rejections import is_history_rejection

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from toolmend.errors import BrokenHistoryError
    from toolmend.telemetry.current_span import CurrentSpan
    from toolmend.telemetry.model_calls import ModelCallReport

OnRepair = Callable[[Repair], object]
_ASYNC_CALLBACK: Final = "on_repair is async, and the decorated function is not"


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
        self._on_repair = on_repair
        self._repaired = repaired
        self._refusal = refusal

    def tell(self) -> None:
        """Hand the repair to the user's callback, or raise the refusal.

        Raises:
            BrokenHistoryError: under ``mode="raise"``.
        """
        try:
            self._start()
            if self._on_repair is not None and self._repaired is not None:
                with guard("on_repair"):
                    answer = self._on_repair(self._repaired)
                    if inspect.iscoroutine(answer):
                        answer.close()
                        raise TypeError(_ASYNC_CALLBACK)  # noqa: TRY301 - for the guard
        except BaseException as error:
            self.fail(error)
            raise

    async def tell_async(self) -> None:
        """Do the same for an async function, whose callback may be async too.

        Raises:
            BrokenHistoryError: under ``mode="raise"``.
        """
        try:
            self._start()
            if self._on_repair is not None and self._repaired is not None:
                with guard("on_repair"):
                    answer = self._on_repair(self._repaired)
                    if inspect.isawaitable(answer):
                        await answer
        except BaseException as error:
            self.fail(error)
            raise

    def _start(self) -> None:
        if self.report is not None:
            self.report.start()
        if self._refusal is not None:
            self.succeed()
            raise self._refusal

    def has_mended(self) -> bool:
        """Tell whether a layer of this call has changed its history."""
        return self.report is not None and self.report.facts.outcome == "repaired"

    def inside(self) -> AbstractContextManager[None]:
        """Mark the work inside as part of this call, with its span as the current one."""
        return _Inside(self)

    def first_item(self) -> None:
        """Note that an item came: by now every layer inside has reported."""
        if self.report is not None:
            self.report.count()

    def succeed(self) -> None:
        """Note that the call is over."""
        self._let_go()
        if self.report is not None:
            self.report.end()

    def fail(self, error: BaseException) -> None:
        """Note what the call raised."""
        self._let_go()
        if self.report is not None:
            self.report.end(error, is_rejected=is_history_rejection(error))

    def abandon(self) -> None:
        """Note that nobody will read on; safe where the garbage collector calls it.

        It runs wherever memory is taken, also while this thread holds a lock of the OpenTelemetry SDK,
        so nothing may be counted there and then.
        """
        if not self.is_over:
            _abandoned.put(self.succeed)

    def end_with(self, future: Any) -> None:
        """Note how a future ended."""
        with guard("stream"):
            # Not by `exception()`: asyncio warns of errors that nobody asked for, and still shall.
            error = getattr(future, "_exception", None)
            if future.cancelled():
                self.fail(asyncio.CancelledError())
            elif error is not None:
                self.fail(error)
            else:
                self.succeed()

    def _let_go(self) -> None:
        """Drop the history: a background task may hold on to this call for long."""
        self.is_over = True
        self.args, self.kwargs = (), {}
        self._repaired = None


_outermost: Final[ContextVar[Run | None]] = ContextVar("toolmend_model_call", default=None)
_abandoned: Final = Abandoned()


def settle_abandoned() -> None:
    """End the calls whose streams were abandoned."""
    _abandoned.settle()


def watch_for_abandoned() -> None:
    """See to it that abandoned streams end soon, also when no other call follows."""
    _abandoned.start()


def outermost_run() -> Run | None:
    """Return the call that the work at hand is part of, None when there is none or it is over."""
    run = _outermost.get()
    return None if run is None or run.is_over else run


_COUNTED: Final = Run((), {})
"""Stands for a call that was counted before it began."""


def count_afresh() -> None:
    """Take the mark off that another request has left in this context."""
    if _outermost.get() is _COUNTED:
        _outermost.set(None)


def count_no_more() -> None:
    """Mark what follows in this context as part of a call that is counted: for hooks that end before it begins."""
    _outermost.set(_COUNTED)


class _Inside:
    """Sets the mark and the span around one stretch of work, and takes both off again."""

    __slots__ = ("_run", "_span", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._span: CurrentSpan | None = None
        self._token: Token[Run | None] | None = None

    def __enter__(self) -> None:
        report = self._run.report
        if report is None:
            return
        self._token = _outermost.set(self._run)
        with guard("stream"):
            self._span = report.current()
            self._span.__enter__()

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
