"""Call: one guarded call from its beginning to its end, and what is told about it."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from toolmend._call_ends import CallEnd, call_ends, digest_of
from toolmend._threads import current_thread
from toolmend.execution import texts
from toolmend.execution.budgets import Budgets
from toolmend.execution.context import CallFrame, ToolContext, current_frame, leave_frame
from toolmend.execution.ended import Ended
from toolmend.execution.error_types import MEANINGS
from toolmend.execution.failures import AttemptFailed, Failure, ToolCallFailed
from toolmend.execution.guard import is_async
from toolmend.execution.results import text_of_result
from toolmend.telemetry.baggage import thread_from_baggage
from toolmend.telemetry.faults import guard as fault_guard
from toolmend.telemetry.tool_calls import ToolCallReport, tool_call_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolmend.execution.guard import Guard
    from toolmend.telemetry.names import ErrorType, FallbackKind

_MAY_BE_UNKNOWN: Final = frozenset(
    ("timeout", "outcome_unknown", "transient", "permanent", "invalid_result", "cancelled")
)
_NOT_BUDGETED: Final = frozenset(("breaker_open", "cancelled"))
budgets: Final = Budgets()
"""What tools have spent in the runs of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=budgets.renew_lock)


class Call:
    """One call.

    Args:
        guard: of the tool.
        outer: the call that this one answers for as its alternative; None for a call of its own.
        function: what is run, if not the guard's own.
    """

    def __init__(
        self,
        guard: Guard,
        outer: Call | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.guard = guard
        self._function = guard.function if function is None else function
        self.is_async = guard.is_async if function is None else is_async(function)
        self.frame: CallFrame = current_frame.get() if outer is None else outer.frame.inner()
        if guard.options.thread_label is not None:
            self.frame = replace(self.frame, thread_label=guard.options.thread_label)
        self.thread = thread_of_call()
        self._outer = outer
        self._may_have_run = self._could_before = False
        self._is_unknown = False  # what an alternative did
        self._limit: float | None = None
        self._refusal = ""
        self._is_abandoned = False
        self._key = ""
        facts = tool_call_facts(
            tool=guard.tool_name,
            call_id=self.frame.call_id,
            thread=self.thread,
            label=self.frame.thread_label,
        )
        with ExitStack() as inside:
            if outer is not None:
                inside.enter_context(outer.report.current())
            self.report: ToolCallReport = ToolCallReport(facts)
        self._digest = self.frame.digest

    def begin(self, values: Mapping[str, object]) -> None:
        """Note that the call has its arguments, and runs."""
        if self.frame.call_id is None:
            return
        if self._digest is None:
            self._digest = digest_of(self.guard.tool_name, values)
        self._note(None)

    @property
    def is_alternative(self) -> bool:
        """Whether it answers for another call."""
        return self._outer is not None

    def remaining_seconds(self) -> float | None:
        """Return how much time is left, None for no limit."""
        deadline = self.frame.deadline
        return None if deadline is None else deadline - time.monotonic()

    def limit_seconds(self) -> float | None:
        """Return the time limit of the next attempt, None for none.

        Raises:
            AttemptFailed: there is no time left.
        """
        limit = self.guard.options.timeout_seconds
        remaining = self.remaining_seconds()
        if remaining is not None:
            if remaining <= 0:
                raise AttemptFailed(Failure(error_type="timeout", may_have_run=False))
            limit = remaining if limit is None else min(limit, remaining)
        self._limit = limit
        return limit

    def check_budget(self) -> None:
        """Refuse a call of a tool that failed too often in this run.

        Raises:
            AttemptFailed: it did.
        """
        run_id, budget = self.frame.run_id, self.guard.options.run_budget
        if run_id is None or budget is None:
            return
        spent = budgets.spent(run_id, self.guard.tool_name)
        if spent.failures >= budget and spent.last_error_type is not None:
            self._refusal = texts.exhausted(self.guard.tool_name, spent.failures)
            raise AttemptFailed(Failure(error_type=spent.last_error_type, may_have_run=False))

    def begin_attempt(self) -> None:
        """Note that the tool is run."""
        self._could_before, self._may_have_run = self._may_have_run, True
        self.report.begin_attempt()

    def end_attempt(self, failure: Failure | None) -> None:
        """Note how the attempt ended; None for a value, and for an end that says nothing."""
        if failure is not None and not _may_have_acted(failure):
            self._may_have_run = self._could_before
        self.report.end_attempt("" if failure is None else failure.error_type)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the tool's code under its span; calls that it makes itself are not this one."""
        token = current_frame.set(self.frame.inner())
        try:
            with self.report.current():
                yield
        finally:
            leave_frame(token)

    def bound(self, owner: tuple[Any, ...], values: dict[str, object]) -> Callable[[], Any]:
        """Return the tool with its arguments."""
        signature = self.guard.signature
        if signature.context_parameter is not None:
            values = {**values, signature.context_parameter: self._context(values)}
        first, rest = signature.positional(values)
        return partial(self._function, *owner, *first, **rest)

    def abandon(self, running: Any) -> None:
        """Note that an attempt was given up and goes on."""
        self._is_abandoned = True
        self.guard.abandon(running)

    def repeat(self, error_type: ErrorType) -> None:
        """Note that the tool is tried again: how it went so far does not tell how the call ends."""
        self._is_abandoned = False
        self.report.retry(error_type)

    def timed_out(self) -> Failure:
        """Return what a timeout of ours means for this tool."""
        is_safe = self.guard.is_retry_safe
        return Failure(error_type="timeout" if is_safe else "outcome_unknown")

    def may_have_happened(self, failure: Failure) -> bool:
        """Tell whether a failed call may have had its effect all the same."""
        inner = failure.exception
        if self._is_unknown or (isinstance(inner, ToolCallFailed) and inner.is_outcome_unknown):
            return True
        is_safe = self.guard.is_retry_safe
        return self._may_have_run and not is_safe and _may_have_acted(failure)

    def succeed(self, value: Any) -> Ended:
        """End with the tool's own value."""
        self._end("ok", None)
        return Ended(value=value, tool_name=self.guard.tool_name)

    def degrade(
        self, failure: Failure, kind: FallbackKind, value: Any, ticket: str | None = None
    ) -> Ended:
        """End with what a fallback answered; the tool itself failed."""
        self.report.facts.fallback = kind
        self._note_failure(failure)
        self._end("degraded", failure)
        error = None
        if kind == "human":
            error = self._error(failure)
            error.text_for_model, error.ticket = str(value), ticket
        return Ended(value=value, error=error, fallback=kind, tool_name=self.guard.tool_name)

    def fail(self, failure: Failure) -> Ended:
        """End without a value."""
        self._note_failure(failure)
        is_exhausted = self._end("abandoned" if self._is_abandoned else "failed", failure)
        error = self._error(failure, is_exhausted=is_exhausted)
        error.__cause__ = failure.exception
        return Ended(error=error, tool_name=self.guard.tool_name)

    def interrupt(self) -> Ended:
        """End because the caller does not wait any longer, and hand over what the model is told."""
        failure = Failure(error_type="cancelled", may_have_run=self._may_have_run)
        self._end("cancelled", failure)
        error = self._error(failure)
        if self.frame.on_interrupted is not None:
            with fault_guard("tool"):
                self.frame.on_interrupted(error)
        return Ended(error=error, tool_name=self.guard.tool_name)

    def _note_failure(self, failure: Failure) -> None:
        facts = self.report.facts
        facts.rule = failure.where
        if failure.exception is not None:
            facts.exception_type = type(failure.exception).__qualname__

    def _error(self, failure: Failure, *, is_exhausted: bool = False) -> ToolCallFailed:
        is_unknown = self.may_have_happened(failure)
        if is_unknown and self._outer is not None:
            self._outer._is_unknown = True  # noqa: SLF001 - another call, of the same class
        return ToolCallFailed(
            self._text(failure, is_unknown=is_unknown),
            tool_name=self.guard.tool_name,
            error_type=failure.error_type,
            call_id=self.frame.call_id,
            attempts=self.report.facts.attempts,
            is_outcome_unknown=is_unknown,
            is_exhausted=is_exhausted,
            retry_after_seconds=failure.retry_after_seconds,
        )

    def _text(self, failure: Failure, *, is_unknown: bool) -> str:
        text = self._refusal
        if not text and failure.message:
            # What a guarded tool inside said, and what a classifier wants to be said.
            is_said = failure.exception is None and failure.error_type != "invalid_arguments"
            if is_said or isinstance(failure.exception, ToolCallFailed):
                text = failure.message
        if text:
            return texts.unknown(text) if is_unknown else text
        return texts.text_for(
            failure,
            tool=self.guard.tool_name,
            attempts=self.report.facts.attempts,
            is_outcome_unknown=is_unknown,
            timeout_seconds=self._limit,
        )

    def _end(self, outcome: str, failure: Failure | None) -> bool:
        """Tell telemetry, the record and the budget; return whether the budget is spent."""
        facts = self.report.facts
        facts.outcome = outcome
        if failure is not None:
            facts.error_type = failure.error_type
        self.report.settle()
        if failure is None:
            self._note("result_lost")
        else:
            is_answered = outcome == "degraded"
            self._note("result_lost" if is_answered else MEANINGS[failure.error_type].cause)
        is_exhausted = self._spend(outcome, failure)
        self.report.end()
        return is_exhausted

    def _spend(self, outcome: str, failure: Failure | None) -> bool:
        run_id, budget = self.frame.run_id, self.guard.options.run_budget
        if run_id is None:
            return False
        failed: ErrorType | None = None
        if (
            failure is not None
            and outcome in ("failed", "abandoned")
            and failure.error_type not in _NOT_BUDGETED
            and not self._refusal
        ):
            failed = failure.error_type
        spent = budgets.add(
            run_id, self.guard.tool_name, attempts=self.report.facts.attempts, failed=failed
        )
        if self._refusal:
            return True
        return failed is not None and budget is not None and spent.failures >= budget

    def _note(self, cause: Any) -> None:
        if self.frame.call_id is not None:
            end = CallEnd(
                self.guard.tool_name,
                cause,
                self.report.span_context,
                self._digest,
                is_as_asked=self.frame.digest is not None,
            )
            call_ends.note(self.thread, self.frame.call_id, end)

    def _context(self, values: Mapping[str, object]) -> ToolContext:
        frame = self.frame
        if not self._key:
            # An alternative is the same call to whoever repeats it.
            basis = frame if self._outer is None else self._outer.frame
            self._key = _idempotency_key(basis, self.guard.tool_name, values)
        return ToolContext(
            tool_name=self.guard.tool_name,
            call_id=frame.call_id,
            run_id=frame.run_id,
            step=frame.step,
            thread=self.thread,
            attempt=self.report.facts.attempts,
            idempotency_key=self._key,
            deadline=frame.deadline,
        )


def _may_have_acted(failure: Failure) -> bool:
    return failure.may_have_run and failure.error_type in _MAY_BE_UNKNOWN


def thread_of_call() -> str | None:
    """Return the conversation that a call belongs to, None when nobody named it."""
    found = current_thread()
    if found is None:
        with fault_guard("thread"):
            found = thread_from_baggage()
    return found


def _idempotency_key(frame: CallFrame, tool: str, values: Mapping[str, object]) -> str:
    """Return a key that a repetition of the same call in the same run finds again.

    The arguments are part of it: some hosts number the calls of each answer anew, and some models give
    one id to several calls.
    """
    if frame.run_id is None or frame.call_id is None:
        return uuid.uuid4().hex
    mark = "\0".join((frame.run_id, str(frame.step), frame.call_id, tool))
    written = text_of_result(dict(sorted(values.items())))
    return blake2b(
        f"{mark}\0{written}".encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()
