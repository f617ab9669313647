"""Steps: the decisions of one guarded call, in order; nothing here waits, and drivers decide nothing.

From the outside in: budget of the run, arguments, attempts (breaker, time limit, tool, result), fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from toolmend.execution import texts
from toolmend.execution.breaker import Permit, Refusal, Verdict
from toolmend.execution.call import Call
from toolmend.execution.classify import is_control_flow
from toolmend.execution.ended import Ended
from toolmend.execution.error_types import MEANINGS
from toolmend.execution.failures import AttemptFailed, Failure, ToolCallFailed
from toolmend.execution.fallback import Escalation
from toolmend.execution.guard import Guard, is_async
from toolmend.execution.retry import Backoff
from toolmend.execution.workers import WorkersBusyError
from toolmend.telemetry.faults import report_fault


class AttemptTimedOutError(Exception):
    """Our time limit ended an attempt."""


class ToolCancelledItselfError(Exception):
    """The tool raised a cancellation that nobody asked for."""


class CallCancelledError(BaseException):
    """The caller set the event that cancels a sync call."""


@dataclass(frozen=True, slots=True)
class Run:
    """Ask the driver to run something of the tool's.

    Attributes:
        call: the call that it is for.
        function: takes nothing; may return an awaitable where the driver is async.
        limit_seconds: time limit, None for none.
        is_async: it returns an awaitable.
        is_tool: it is the tool itself, which has workers of its own.
    """

    call: Call
    function: Callable[[], Any]
    limit_seconds: float | None
    is_async: bool
    is_tool: bool = True

    @property
    def is_aside(self) -> bool:
        """Whether it must not hold up a loop: the caller asked for another function, an async one."""
        return not self.is_tool or self.call.is_alternative


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask the driver to wait, in seconds."""

    call: Call
    seconds: float


_SHORTEST_ASKING_SECONDS: Final = 1.0
"""A human is asked when time is over, too: that is when one is needed."""

Steps = Generator["Run | Wait", Any, Ended]
Values = dict[str, object]


def conduct(
    guard: Guard,
    given: Callable[[], Values],
    owner: tuple[Any, ...] = (),
    outer: Call | None = None,
    *,
    function: Callable[..., Any] | None = None,
) -> Steps:
    """Yield the steps of a call, and return how it ended.

    Args:
        guard: of the tool.
        given: returns the arguments by name, or raises ``AttemptFailed``.
        owner: the instance or class of a method.
        outer: the call that this one answers for; it uses no fallback then.
        function: what is run under the guard, if not its own; it may raise ``AttemptFailed`` where it
            knows better than a classifier.
    """
    call = Call(guard, outer, function)
    try:
        values: Values = {}
        try:
            call.check_budget()
            values = given()
            value = yield from _attempts(call, owner, guard.arguments.ready(values))
        except AttemptFailed as failed:
            if failed.failure.error_type == "invalid_schema":
                guard.report_broken(failed.failure.exception)
                _open(guard)
            if outer is not None:
                return call.fail(failed.failure)
            return (yield from _fall_back(call, failed.failure, values))
        return call.succeed(value)
    except CallCancelledError:
        return call.interrupt()
    except BaseException:
        # Also what frameworks steer by: the model gets its result, and the exception goes on.
        call.interrupt()
        raise


def _open(guard: Guard) -> None:
    """Open the breaker of a tool whose definition is broken: nobody can call it."""
    if guard.breaker is None:
        return
    permit = guard.breaker.acquire()
    if isinstance(permit, Permit):
        guard.breaker.release(permit, "invalid_schema")


def _attempts(call: Call, owner: tuple[Any, ...], values: Values) -> Generator[Any, Any, Any]:
    backoff: Backoff | None = None
    while True:
        try:
            return (yield from _attempt(call, owner, values))
        except AttemptFailed as failed:
            settings = call.guard.options.retry
            if settings is None or not failed.may_repeat or not call.guard.is_available():
                raise  # a breaker that this failure opened ends the loop, and the failure is told
            if backoff is None:
                backoff = Backoff(settings, call.remaining_seconds)
            error_type = failed.failure.error_type
            wait = backoff.wait_after(failed)
        yield Wait(call, wait)
        call.report.retry(error_type)


def _attempt(call: Call, owner: tuple[Any, ...], values: Values) -> Generator[Any, Any, Any]:
    cancel = call.frame.cancel
    if cancel is not None and cancel.is_set():
        raise CallCancelledError
    breaker = call.guard.breaker
    permit = None if breaker is None else breaker.acquire()
    if isinstance(permit, Refusal):
        raise AttemptFailed(
            Failure(
                error_type="breaker_open",
                may_have_run=False,
                retry_after_seconds=permit.retry_seconds,
            )
        )
    verdict: Verdict = "ignored"
    failure: Failure | None = None
    try:
        limit = call.limit_seconds()
        call.begin_attempt()
        try:
            value = yield Run(call, call.bound(owner, values), limit, call.is_async)
        except Exception as error:
            if is_control_flow(error):
                raise
            failure = _failure_of(call, error)
            if failure.error_type == "cancelled":  # so was a tool inside, by the event of this call
                raise CallCancelledError from error
        else:
            found = call.guard.judge(value)
            if found is None or not call.guard.options.strict_result:
                verdict = "ok"
                if found is not None:
                    call.report.facts.rule = found.where
                return value
            failure = found
        # A crowd of calls says nothing about the tool.
        is_busy = isinstance(failure.exception, WorkersBusyError)
        verdict = "ignored" if is_busy else MEANINGS[failure.error_type].verdict
        may_repeat = failure.may_repeat(is_retry_safe=call.guard.is_retry_safe)
        # A guarded tool inside has had its attempts.
        is_inner = isinstance(failure.exception, ToolCallFailed)
        raise AttemptFailed(failure, may_repeat=may_repeat and not is_inner)
    finally:
        call.end_attempt(failure)
        if breaker is not None and permit is not None:
            breaker.release(permit, verdict)


def _failure_of(call: Call, error: Exception) -> Failure:
    if isinstance(error, AttemptFailed):
        return error.failure
    if isinstance(error, AttemptTimedOutError):
        return call.timed_out()
    if isinstance(error, WorkersBusyError):
        return Failure(error_type="transient", may_have_run=False, exception=error)
    if isinstance(error, ToolCancelledItselfError):
        return Failure(error_type="transient", exception=error.__cause__)
    return call.guard.classify(error)


def _fall_back(call: Call, failure: Failure, values: Values) -> Steps:
    fallback = call.guard.options.fallback
    if fallback is None:
        return call.fail(failure)
    is_unknown = call.may_have_happened(failure)
    may_answer = MEANINGS[failure.error_type].falls_back and not is_unknown
    alternative = call.guard.alternative
    if may_answer and alternative is not None:
        ended = yield from conduct(alternative, partial(_mapped, call.guard, values), (), call)
        if ended.error is None:
            return call.degrade(failure, "alternative", ended.value)
        if ended.error.error_type == "cancelled":
            raise CallCancelledError
        is_unknown = ended.error.is_outcome_unknown
        may_answer = not is_unknown
    if may_answer and fallback.has_value:
        return call.degrade(failure, "default", fallback.value)
    if fallback.human is not None and (may_answer or is_unknown):
        ticket = yield from _ask_human(call, failure, values)
        if ticket is not None:
            told = texts.escalated(
                call.guard.tool_name, ticket, fallback.expires_seconds, fallback.text_at_expiry
            )
            return call.degrade(failure, "human", told, ticket)
    return call.fail(failure)


def _mapped(guard: Guard, values: Values) -> Values:
    """Return the arguments of the alternative tool."""
    fallback = guard.options.fallback
    if fallback is None or fallback.map_arguments is None:
        return dict(values)
    try:
        return dict(fallback.map_arguments(values))
    except Exception as error:
        report_fault("tool", error)
        raise AttemptFailed(
            Failure(error_type="invalid_arguments", may_have_run=False, exception=error)
        ) from error


def _ask_human(call: Call, failure: Failure, values: Values) -> Generator[Any, Any, str | None]:
    fallback = call.guard.options.fallback
    assert fallback is not None
    assert fallback.human is not None
    escalation = Escalation(
        tool_name=call.guard.tool_name,
        arguments=values,
        error_type=failure.error_type,
        is_outcome_unknown=call.may_have_happened(failure),
        call_id=call.frame.call_id,
        run_id=call.frame.run_id,
        thread=call.thread,
    )
    try:
        ask = partial(fallback.human, escalation)
        remaining = call.remaining_seconds()
        limit = None if remaining is None else max(remaining, _SHORTEST_ASKING_SECONDS)
        is_async_human = is_async(fallback.human)
        ticket = yield Run(call, ask, limit, is_async_human, is_tool=False)
        return None if ticket is None else str(ticket)
    except Exception as error:  # noqa: BLE001 - the application's own code
        report_fault("tool", error)
        return None
