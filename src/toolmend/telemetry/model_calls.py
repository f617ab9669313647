"""Model calls: facts about one decorated call, turned into a span, metrics and log events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry import context, trace

from toolmend.settings import settings
from toolmend.telemetry import names
from toolmend.telemetry.counting import count_model_call
from toolmend.telemetry.current_span import CurrentSpan
from toolmend.telemetry.events import log
from toolmend.telemetry.faults import guard
from toolmend.telemetry.label_sets import shown
from toolmend.telemetry.model_call_facts import MENDED_OUTCOMES, ModelCallFacts
from toolmend.telemetry.signals import is_suppressed, signals

if TYPE_CHECKING:
    from typing import TypeGuard

    from opentelemetry.util.types import AttributeValue

    from toolmend.mending.findings import Finding
    from toolmend.settings import Spans

_MAX_EVENTS: Final = 32
_MAX_LINKS: Final = 32


class ModelCallReport:
    """The telemetry of one outermost model call. None of its methods raises.

    Args:
        facts: filled in by the layers until ``count`` is called.
        spans: which calls get a span; as the operator set it if None.
    """

    def __init__(self, facts: ModelCallFacts, spans: Spans | None = None) -> None:
        self.facts = facts
        self._spans: Spans = spans or settings().spans
        self._span: trace.Span | None = None
        self._parent = context.get_current()
        self._is_silent = is_suppressed()
        self._is_counted = False
        self._is_ended = False
        self._linked: tuple[object, ...] = ()

    def start(self) -> None:
        """Begin the span where one is wanted from the start."""
        if self._is_silent or self._spans == "never":
            return
        if self._spans == "always" or self.facts.outcome in MENDED_OUTCOMES:
            with guard("telemetry"):
                self._span = self._new_span()

    def current(self) -> CurrentSpan:
        """Make the span current, so that the provider's own span becomes its child."""
        return CurrentSpan(self._span)

    def count(self) -> None:
        """Count the call, once; by now every inner layer has reported."""
        if self._is_counted or self._is_silent:
            return
        self._is_counted = True
        with guard("telemetry"), self.current():
            count_model_call(signals(), self.facts)

    def end(self, error: BaseException | None = None, *, is_rejected: bool = False) -> None:
        """End the span, with the error that the model call itself raised."""
        self.count()
        if self._is_ended or self._is_silent:
            return
        self._is_ended = True
        if is_rejected:
            with guard("telemetry"), self.current():
                count_rejection(self.facts)
        with guard("telemetry"):
            is_notable = is_rejected or self.facts.outcome in MENDED_OUTCOMES
            if self._span is None and is_notable and self._spans == "repairs":
                self._span = self._new_span()
            if self._span is not None:
                self._end_span(self._span, error, is_rejected=is_rejected)

    def _new_span(self) -> trace.Span:
        self._linked = self.facts.tool_spans[:_MAX_LINKS]
        return signals().tracer.start_span(
            names.SPAN_MODEL_CALL,
            context=self._parent,
            kind=trace.SpanKind.INTERNAL,
            links=[trace.Link(span) for span in self._linked if _is_context(span)],
            start_time=self.facts.started_at or None,
        )

    def _end_span(
        self, span: trace.Span, error: BaseException | None, *, is_rejected: bool
    ) -> None:
        try:
            if span.is_recording():
                span.set_attributes(_attributes(self.facts))
                _add_findings(span, self.facts.findings)
                for inner in self.facts.tool_spans[len(self._linked) : _MAX_LINKS]:
                    if _is_context(inner):
                        span.add_link(inner)
                if is_rejected:
                    span.set_attribute(names.REJECTED, True)
                if error is not None:
                    # No message: a provider's error may quote the history.
                    span.set_status(trace.Status(trace.StatusCode.ERROR))
                    span.set_attribute(names.ERROR_TYPE, type(error).__qualname__)
        finally:
            span.end()


def count_rejection(facts: ModelCallFacts) -> None:
    """Count and log that the provider refused the history of a call all the same."""
    signals().add(names.REJECTIONS, facts.model, facts.provider, facts.outcome)
    log(
        "error",
        names.LOG_REJECTED,
        model=facts.model,
        provider=facts.provider,
        thread=facts.thread,
        format=facts.format,
        outcome=facts.outcome,
    )


def _is_context(span: object) -> TypeGuard[trace.SpanContext]:
    """Tell whether what was recorded of a tool's span can be linked to."""
    return isinstance(span, trace.SpanContext) and span.is_valid


def _attributes(facts: ModelCallFacts) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        names.MODEL: facts.model,
        names.PROVIDER: facts.provider,
        names.FORMAT: facts.format,
        names.MODE: facts.mode,
        names.OUTCOME: facts.outcome,
        names.MESSAGES: facts.messages,
    }
    if facts.thread is not None:
        attributes[names.THREAD] = facts.thread
    if facts.first_changed_index is not None:
        attributes[names.FIRST_CHANGED_INDEX] = facts.first_changed_index
    for counter, amount in facts.counts.items():
        attributes[f"{names.REPAIRS}.{counter}"] = amount
    return attributes


def _add_findings(span: trace.Span, findings: tuple[Finding, ...]) -> None:
    for finding in findings[:_MAX_EVENTS]:
        attributes = {
            names.FINDING: finding.kind,
            names.ACTION: finding.action,
            names.TOOL: shown(finding.tool_name),
            names.CALL_ID: shown(finding.call_id),
            names.CAUSE: finding.cause,
        }
        span.add_event(
            names.EVENT_FINDING,
            {key: value for key, value in attributes.items() if value is not None},
        )
    if len(findings) > _MAX_EVENTS:
        span.set_attribute(names.FINDINGS, len(findings))
