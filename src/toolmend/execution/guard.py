"""Guard: one tool with all that is kept about it between calls."""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from toolmend.errors import PolicyError
from toolmend.execution.arguments import Arguments
from toolmend.execution.breaker import CircuitBreaker, Transition
from toolmend.execution.classify import classify
from toolmend.execution.failures import Failure
from toolmend.execution.options import RETRY_SAFE, ToolOptions
from toolmend.execution.schema import Schema, SchemaError
from toolmend.execution.signature import Signature
from toolmend.execution.texts import message_of
from toolmend.execution.workers import Workers
from toolmend.telemetry.faults import report_fault
from toolmend.telemetry.gauges import watch_tool
from toolmend.telemetry.tool_calls import report_misconfigured, report_transition

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from toolmend.execution.fallback import Fallback


class Guard:
    """One guarded tool: its function, its breaker, its workers.

    Args:
        function: the tool; None where every call brings its own, which takes its arguments by name and
            has them judged by nobody here but a schema that is given.
        options: how it is guarded.

    Raises:
        PolicyError: settings that do not fit the tool.
    """

    def __init__(self, function: Callable[..., Any] | None, options: ToolOptions) -> None:
        is_brought = function is None
        if function is None:
            function = _brought
        self.function = function
        self.options = options
        self.tool_name: str = options.name or _name(function)
        self.is_async = is_async(function)
        if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
            raise PolicyError(f"{self.tool_name} yields; a tool returns its result as a whole")
        self.is_retry_safe = options.effect in RETRY_SAFE
        self.signature = Signature(function)
        if options.effect == "keyed" and not is_brought and not self.signature.context_parameter:
            raise PolicyError(
                f'{self.tool_name} is effect="keyed", so it passes on the key of its call: '
                "give it a parameter annotated with toolmend.ToolContext"
            )
        self.arguments = Arguments(
            self.signature,
            options.arguments_schema,
            options.prepare_arguments,
            derives=not is_brought,
        )
        self.breaker = (
            None
            if options.breaker is None
            else CircuitBreaker(options.breaker, on_change=self._tell_change)
        )
        self.workers = Workers(self.tool_name, options.max_workers)
        self.alternative = _alternative(self, options.fallback)
        self._result_schema: Schema | None = None
        self._lock = threading.Lock()
        self._given_up: set[Any] = set()
        self._is_reported_broken = False
        watch_tool(self)
        _guards.add(self)

    @property
    def description(self) -> str:
        """What the tool says of itself."""
        return inspect.getdoc(self.function) or ""

    def own_breaker(self) -> CircuitBreaker:
        """Return the breaker.

        Raises:
            TypeError: there is none.
        """
        if self.breaker is None:
            raise TypeError(f"{self.tool_name} has no breaker: its settings say breaker=None")
        return self.breaker

    def breaker_state(self) -> str | None:
        """Return the state of the breaker, None when there is none."""
        return None if self.breaker is None else self.breaker.state

    def abandoned_calls(self) -> int:
        """Return how many calls were given up and still run."""
        return len(self._given_up)

    def is_available(self) -> bool:
        """Tell whether a call would be let through now."""
        return self.breaker is None or self.breaker.is_available()

    def abandon(self, running: Future[Any] | Any) -> None:
        """Count a call that was given up, until it ends by itself; it is kept from being collected."""
        with self._lock:
            self._given_up.add(running)
        running.add_done_callback(self._settle)

    def _settle(self, ended: Any) -> None:
        with self._lock:
            self._given_up.discard(ended)
        if not ended.cancelled():
            ended.exception()  # so that nobody complains that it was never looked at

    def classify(self, error: Exception) -> Failure:
        """Return what an exception of the tool says."""
        own = self.options.classify
        if own is not None:
            try:
                said = own(error)
                if isinstance(said, Failure):
                    return said
                if isinstance(said, str):
                    return _failure_of(said, error)
            except Exception as fault:  # noqa: BLE001 - the application's own code
                report_fault("tool", fault)
        try:
            return classify(error)
        except Exception as fault:  # noqa: BLE001 - an exception may do anything when it is looked at
            report_fault("tool", fault)
            return Failure(error_type="transient", exception=error)

    def judge(self, value: object) -> Failure | None:
        """Return what is wrong with a result, None when it may go to the model."""
        options = self.options
        if options.result_schema is None and options.check_result is None:
            return None
        rule = self._broken_rule(value)
        return None if rule is None else Failure(error_type="invalid_result", where=rule)

    def _broken_rule(self, value: object) -> str | None:
        options = self.options
        if options.result_schema is not None:
            try:
                plain = self.signature.jsonable({"": value})[""]
            except Exception:  # noqa: BLE001 - a tool's value may do anything, such as containing itself
                return _NO_JSON
            try:
                if self._result_schema is None:
                    self._result_schema = Schema(options.result_schema)
                found = self._result_schema.problems(plain)
            except SchemaError as error:
                self.report_broken(error)
                found = []
            if found:
                return found[0].rule
        if options.check_result is not None:
            try:
                said = options.check_result(value)
            except Exception:  # noqa: BLE001 - raising is how a check says no
                return "check_result"
            if said is False or (isinstance(said, str) and said):
                return "check_result"
        return None

    def report_broken(self, error: BaseException | None) -> None:
        """Log, once, that the definition of the tool is broken."""
        with self._lock:
            if self._is_reported_broken:
                return
            self._is_reported_broken = True
        report_misconfigured(self.tool_name, str(error) if isinstance(error, SchemaError) else "")

    def renew_locks(self) -> None:
        """Replace locks that another thread may have held when this process was forked."""
        self._lock = threading.Lock()
        self._given_up = set()  # what the other process gave up does not run in this one
        self.signature.renew_lock()
        self.arguments.renew_lock()
        if self.breaker is not None:
            self.breaker.renew_lock()

    def _tell_change(self, change: Transition) -> None:
        report_transition(self.tool_name, change.before, change.after, change.reason)


_NO_JSON: Final = "json"
"""The rule that a result breaks which cannot be written as JSON."""
_GUARD: Final = "__toolmend_guard__"
_guards: Final[weakref.WeakSet[Guard]] = weakref.WeakSet()


def _renew_locks() -> None:
    for guard in list(_guards):
        guard.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def mark(wrapper: Any, guard: Guard) -> None:
    """Note the guard of a decorated function, and that of a bound method's."""
    setattr(wrapper, _GUARD, guard)


def guard_of(tool: object) -> Guard | None:
    """Return the guard of a decorated function, None when it has none."""
    found = getattr(tool, _GUARD, None)
    return found if isinstance(found, Guard) else None


def is_async(function: object) -> bool:
    """Tell whether a function returns an awaitable."""
    return _is(inspect.iscoroutinefunction, function)


async def _brought(**arguments: Any) -> Any:
    """Stand in for the functions that calls bring. Async, so that their fallbacks may be."""
    raise NotImplementedError(arguments)


def _name(function: object) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _alternative(guard: Guard, fallback: Fallback | None) -> Guard | None:
    if fallback is not None and not guard.is_async and is_async(fallback.human):
        raise PolicyError(f"{guard.tool_name} is sync, so Fallback(human=…) must be; it is async")
    if fallback is None or fallback.tool is None:
        return None
    found = guard_of(fallback.tool)
    if found is None:
        raise PolicyError("Fallback(tool=…) is a tool under toolmend.tool_call")
    if found.signature.is_method:
        raise PolicyError("Fallback(tool=…) is a function, not a method of a class")
    if found.is_async and not guard.is_async:
        raise PolicyError(
            f"{guard.tool_name} is sync, so its fallback must be; {found.tool_name} is async"
        )
    return found


def _is(kind: Callable[[object], bool], function: object) -> bool:
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004 - looked at, not called


def _failure_of(said: Any, error: Exception) -> Failure:
    is_permanent = said == "permanent"
    return Failure(
        error_type=said,
        may_have_run=not is_permanent,
        message=message_of(error) if is_permanent else "",
        exception=error,
    )
