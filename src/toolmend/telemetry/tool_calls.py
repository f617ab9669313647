"""Tool calls: one guarded call, turned into spans, metrics and log events."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry import context, trace

from toolmend.settings import settings
from toolmend.telemetry import names
from toolmend.telemetry.current_span import CurrentSpan
from toolmend.telemetry.events import log
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import as_label, shown
from toolmend.telemetry.signals import is_suppressed, signals
from toolmend.telemetry.thread_labels import thread_label

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

_GOOD: Final = ("ok", "cancelled")
"""Outcomes that nobody has to be told about."""


@dataclass(slots=True, kw_only=True)
class ToolCallFacts:
    """What happened in one guarded tool call.

    Attributes:
        tool: name of the tool, as telemetry may show it.
        call_id: id of the call, None where nobody named it.
        thread: id of the conversation, None where nobody named it.
        outcome: one of ``names.TOOL_OUTCOMES``.
        error_type: one of ``names.ERROR_TYPES``, empty when all went well.
        attempts: how often the tool was run.
        exception_type: class of what the tool raised, empty when nothing was.
        fallback: one of ``names.FALLBACK_KINDS``, empty when none answered.
        rule: which rule of the tool's own schema was broken, empty when none was.
    """

    tool: str
    call_id: str | None = None
    thread: str | None = None
    outcome: str = "ok"
    error_type: str = ""
    attempts: int = 0
    exception_type: str = ""
    fallback: str = ""
    rule: str = ""


class ToolCallReport:
    """The telemetry of one guarded tool call. None of its methods raises.

    Args:
        facts: filled in until ``end`` is called.
    """

    def __init__(self, facts: ToolCallFacts) -> None:
        self.facts = facts
        self._parent = context.get_current()
        self._is_silent = is_suppressed()
        self._span: trace.Span | None = None
        self._attempt: trace.Span | None = None
        self._attempt_began = self._attempt_ended = 0
        self._began_at = time.time_ns()
        self._began = time.perf_counter()
        if not self._is_silent and settings().spans == "always":
            with guard("telemetry"):
                self._span = self._new_span()

    @property
    def span_context(self) -> object:
        """The context of the span, for links; None when there is none."""
        if self._span is not None:
            with guard("telemetry"):
                return self._span.get_span_context()
        return None

    def current(self) -> CurrentSpan:
        """Make the span of the attempt, else that of the call, the current one."""
        return CurrentSpan(self._attempt or self._span)

    def begin_attempt(self) -> None:
        """Note that the tool is run; from the second time on, attempts have spans of their own."""
        self.facts.attempts += 1
        if self._span is None:
            return
        with guard("telemetry"):
            began = time.time_ns()
            if self.facts.attempts > 1:
                self._attempt = self._new_attempt(began)
            self._attempt_began = began

    def end_attempt(self, error_type: str = "") -> None:
        """Note how the attempt ended."""
        attempt, self._attempt = self._attempt, None
        self._attempt_ended = time.time_ns()
        if attempt is not None:
            with guard("telemetry"):
                _end_attempt(attempt, error_type, self._attempt_ended)

    def retry(self, error_type: str) -> None:
        """Count that the tool is run again, and show the first attempt as a span, too."""
        if self._is_silent:
            return
        with guard("telemetry"):
            signals().add(names.TOOL_CALLS_RETRIED, self.facts.tool, error_type)
        if self._span is not None and self.facts.attempts == 1:
            with guard("telemetry"):
                first = self._new_attempt(self._attempt_began)
                _end_attempt(first, error_type, self._attempt_ended)

    def end(self) -> None:
        """Count the call, log it where it failed, and end its span."""
        facts = self.facts
        if self._is_silent:
            return
        if self._span is None and facts.outcome != "ok" and settings().spans == "repairs":
            with guard("telemetry"):
                self._span = self._new_span(self._began_at)
        with guard("telemetry"), CurrentSpan(self._span):
            out = signals()
            out.add(names.TOOL_CALLS_EXECUTED, facts.tool, facts.outcome, facts.error_type)
            seconds = time.perf_counter() - self._began
            out.record(names.TOOL_DURATION, seconds, facts.tool, facts.error_type)
            if facts.fallback:
                out.add(names.FALLBACKS, facts.tool, facts.fallback)
            if facts.outcome not in _GOOD:
                self._log()
        if self._span is not None:
            with guard("telemetry"):
                self._end_span(self._span)

    def _new_span(self, start_time: int | None = None) -> trace.Span:
        facts = self.facts
        attributes: dict[str, AttributeValue] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: facts.tool,
        }
        if facts.call_id is not None:
            attributes[names.CALL_ID] = facts.call_id
        if facts.thread is not None:
            attributes[names.THREAD] = facts.thread
        return signals().tracer.start_span(
            f"{names.EXECUTE_TOOL} {facts.tool}",
            context=self._parent,
            kind=trace.SpanKind.INTERNAL,
            attributes=attributes,
            start_time=start_time,
        )

    def _new_attempt(self, start_time: int) -> trace.Span:
        assert self._span is not None
        return signals().tracer.start_span(
            names.SPAN_ATTEMPT,
            context=trace.set_span_in_context(self._span, self._parent),
            kind=trace.SpanKind.INTERNAL,
            attributes={names.TOOL: self.facts.tool, names.ATTEMPT: self.facts.attempts},
            start_time=start_time,
        )

    def _end_span(self, span: trace.Span) -> None:
        facts = self.facts
        try:
            if span.is_recording():
                span.set_attribute(names.OUTCOME, facts.outcome)
                if facts.attempts != 1:
                    span.set_attribute(names.ATTEMPTS, facts.attempts)
                if facts.error_type:
                    span.set_attribute(names.ERROR_TYPE, facts.error_type)
                if facts.exception_type:
                    span.set_attribute(names.EXCEPTION_TYPE, facts.exception_type)
                if facts.fallback:
                    span.set_attribute(names.KIND, facts.fallback)
                if facts.rule:
                    span.add_event(names.EVENT_INVALID, {names.REASON: facts.rule})
                if facts.outcome not in _GOOD:
                    # No message: it may quote arguments or results.
                    span.set_status(trace.Status(trace.StatusCode.ERROR))
        finally:
            span.end()

    def _log(self) -> None:
        facts = self.facts
        fields: dict[str, object] = {
            "tool": facts.tool,
            "thread": facts.thread,
            "call_id": facts.call_id,
            "outcome": facts.outcome,
            "error_type": facts.error_type,
            "attempts": facts.attempts,
        }
        if facts.exception_type:
            fields["exception"] = facts.exception_type
        if facts.rule:
            fields["reason"] = facts.rule
        log("warning", names.LOG_TOOL_FAILED, **fields)


def tool_call_facts(*, tool: str, call_id: str | None, thread: str | None) -> ToolCallFacts:
    """Return the facts of a call that begins, with ids as telemetry may show them."""
    return ToolCallFacts(
        tool=as_label(tool),
        call_id=shown(call_id),
        thread=None if thread is None else thread_label(thread),
    )


def _end_attempt(span: trace.Span, error_type: str, ended: int) -> None:
    if error_type:
        span.set_attribute(names.ERROR_TYPE, error_type)
        span.set_status(trace.Status(trace.StatusCode.ERROR))
    span.end(ended)


def report_transition(tool: str, before: str, after: str, reason: str) -> None:
    """Count a change of state of a breaker, and log it when an incident begins."""
    if is_suppressed():
        return
    with guard("telemetry"):
        tool = as_label(tool)
        signals().add(names.BREAKER_TRANSITIONS, tool, before, after, reason)
        if before == "closed" and after == "open":
            log("error", names.LOG_BREAKER_OPENED, tool=tool, reason=reason)


def report_misconfigured(tool: str, reason: str) -> None:
    """Log that the definition of a tool is broken."""
    with guard("telemetry"):
        log("error", names.LOG_MISCONFIGURED, tool=as_label(tool), reason=reason)
