"""Prepared: a decorated function, and how one call of it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolmend._arguments import (
    MODEL_NAMES,
    THREAD_NAMES,
    CallSite,
    Place,
    StateAccess,
    as_list,
    framework_thread,
    innermost,
    is_readable_once,
    read_once,
    replaced,
    sdk_of,
)
from toolmend._known_causes import KnownCauses
from toolmend._run import OnRepair, Run, outermost_run, settle_abandoned
from toolmend._threads import as_id, current_thread
from toolmend.errors import BrokenHistoryError, HistoryError
from toolmend.formats import FORMATS
from toolmend.mend import Repair, find_format, repair
from toolmend.mending.findings import Finding, count
from toolmend.mending.policy import Policy
from toolmend.settings import Spans, settings
from toolmend.telemetry.baggage import thread_from_baggage
from toolmend.telemetry.faults import guard, report_fault
from toolmend.telemetry.label_sets import as_label
from toolmend.telemetry.model_call_facts import ModelCallFacts
from toolmend.telemetry.model_calls import ModelCallReport
from toolmend.telemetry.names import UNKNOWN
from toolmend.telemetry.thread_labels import thread_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the decorator was told."""

    messages: str | StateAccess | None
    model: str | None
    provider: str | None
    thread: str | Callable[[dict[str, Any]], str | None] | None
    thread_label: Literal["raw", "hash"] | None
    format: str | None
    policy: Policy
    on_repair: OnRepair | None
    spans: Spans | None = None


class Prepared:
    """A decorated function: what is known of it before it is called."""

    def __init__(self, options: Options, function: Callable[..., Any]) -> None:
        self._options = options
        self._site = CallSite(function, options.messages)
        self._provider = options.provider or sdk_of(function) or UNKNOWN
        owner, _, name = getattr(innermost(function), "__qualname__", "").rpartition(".")
        self._is_counted = name != "count_tokens" and not owner.endswith("InputTokens")

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run | None:
        """Mend the history of a call; None when an operator switched us off.

        Raises:
            Exception: what an iterator raises that the caller gave as history.
        """
        if settings().disabled:
            return None
        facts = ModelCallFacts(started_at=time.time_ns())
        began = time.perf_counter()
        settle_abandoned()
        place: Place | None = None
        messages: Sequence[object] | None = None
        is_readable = False
        with guard("recognise"):
            place = self._site.history(args, kwargs)
            if place is not None:
                messages = as_list(place.value)
                is_readable = messages is None and is_readable_once(place)
        if place is not None and is_readable:
            read = read_once(place.value)
            args, kwargs = replaced(args, kwargs, place.at, read)
            messages = read if isinstance(read, list) else None
        repaired: Repair | None = None
        refusal: BrokenHistoryError | None = None
        if place is not None and messages is not None:
            try:
                found = self._mend(messages, args, kwargs, facts)
                if found is not None and found.changed:
                    # A list of its own: what the callback stores must not grow with what is sent.
                    sent = place.holding(list(found.messages))
            except BrokenHistoryError as error:
                refusal = error
            except Exception as error:  # noqa: BLE001 - the guard around our own code
                facts.outcome = "fault"
                report_fault("repair", error)
            else:
                if found is not None and found.changed:
                    repaired = found
                    args, kwargs = replaced(args, kwargs, place.at, sent)
        facts.repair_seconds = time.perf_counter() - began
        outer = outermost_run()
        is_told = self._is_counted and (outer is None or not outer.has_mended())
        report = self._report(facts, outer, args, kwargs)
        return Run(
            args,
            kwargs,
            report=report,
            repaired=repaired,
            refusal=refusal,
            on_repair=self._options.on_repair if is_told else None,
        )

    def _mend(
        self,
        messages: Sequence[object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        facts: ModelCallFacts,
    ) -> Repair | None:
        """Mend a history and note the facts; None when it is none."""
        policy = self._policy(args, kwargs)
        facts.mode = policy.mode_for(None)
        facts.messages = len(messages)
        try:
            hint = self._provider if self._provider in FORMATS else None
            wire = find_format(messages, self._options.format, hint)
            name = wire.NAME if wire is not None else None
            found = repair(messages, name, policy)
            known = self._known(found.findings, args, kwargs, facts)
            if known is not None and known.causes:
                found = repair(messages, name, policy, known.causes)
        except HistoryError:
            return None
        except BrokenHistoryError as error:
            known = self._known(error.findings, args, kwargs, facts)
            told = error if known is None else known.told(error)
            facts.note(wire, messages, "raised", told.findings, count(told.findings))
            raise told from None
        if found.changed:
            outcome = "repaired"
        elif any(finding.action == "observed" for finding in found.findings):
            outcome = "observed"
        else:
            outcome = "clean"
        facts.note(wire, messages, outcome, found.findings, found.counts)
        facts.first_changed_index = found.first_changed_index
        return found

    def _known(
        self,
        findings: tuple[Finding, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        facts: ModelCallFacts,
    ) -> KnownCauses | None:
        """Look up how the tool calls ended that left no result."""
        if not findings:
            return None
        thread = None
        with suppress(Exception):  # counted where the thread is told
            thread = self._thread_id(args, kwargs)
        known = KnownCauses(findings, thread)
        facts.tool_spans = tuple(known.spans)
        return known

    def _policy(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Policy:
        policy = self._options.policy
        mode = settings().mode
        if mode is not None and mode != policy.mode:
            policy = replace(policy, mode=mode)
        elif callable(policy.mode):
            policy = replace(policy, mode=policy.mode_for(self._thread_id(args, kwargs)))
        if policy.server_state is None and self._site.has_server_state(args, kwargs):
            policy = replace(policy, server_state=True)
        return policy

    def _report(
        self,
        facts: ModelCallFacts,
        outer: Run | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> ModelCallReport | None:
        if not self._is_counted:
            return None
        with guard("telemetry"):
            model = self._options.model or self._site.argument(MODEL_NAMES, args, kwargs)
            facts.model = as_label(model)
            facts.provider = as_label(self._provider)
        with guard("thread"):
            facts.thread = self._thread(args, kwargs)
        if outer is None:
            return ModelCallReport(facts, self._options.spans)
        if outer.report is not None:
            with guard("telemetry"):
                outer.report.facts.absorb(facts)
        return None

    def _thread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        found = self._thread_id(args, kwargs)
        return None if found is None else thread_label(found, self._options.thread_label)

    def _thread_id(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        option = self._options.thread
        named = option(self._site.bound(args, kwargs)) if callable(option) else option
        return as_id(
            named
            or current_thread()
            or self._site.argument(THREAD_NAMES, args, kwargs)
            or thread_from_baggage()
            or framework_thread(self._site, args, kwargs)
        )
