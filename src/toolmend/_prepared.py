"""Prepared: a decorated function, and how one call of it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, Literal
from uuid import UUID

from toolmend._arguments import (
    MODEL_NAMES,
    THREAD_NAMES,
    CallSite,
    Place,
    as_list,
    framework_thread,
    replaced,
    sdk_of,
)
from toolmend._run import OnRepair, Run, outermost_run
from toolmend._threads import current_thread
from toolmend.errors import BrokenHistoryError, HistoryError
from toolmend.formats import FORMATS
from toolmend.mend import Repair, find_format, repair
from toolmend.mending.findings import count
from toolmend.mending.policy import Policy
from toolmend.settings import settings
from toolmend.telemetry.baggage import thread_from_baggage
from toolmend.telemetry.faults import guard, report_fault
from toolmend.telemetry.model_call_facts import ModelCallFacts
from toolmend.telemetry.model_calls import ModelCallReport
from toolmend.telemetry.names import UNKNOWN

_UNCOUNTED: Final = frozenset(("count_tokens", "input_tokens"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the decorator was told."""

    messages: str | None
    model: str | None
    provider: str | None
    thread: str | Callable[[dict[str, Any]], str | None] | None
    thread_label: Literal["raw", "hash"] | None
    format: str | None
    policy: Policy
    on_repair: OnRepair | None


class Prepared:
    """A decorated function: what is known of it before it is called."""

    def __init__(self, options: Options, function: Callable[..., Any]) -> None:
        self._options = options
        self._site = CallSite(function, options.messages)
        self._provider = options.provider or sdk_of(function) or UNKNOWN
        name = getattr(function, "__qualname__", "")
        self._is_counted = not any(word in name.lower() for word in _UNCOUNTED)

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Run | None:
        """Mend the history of a call; None when an operator switched us off.

        Raises:
            Exception: what an iterator raises that the caller gave as history.
        """
        if settings().disabled:
            return None
        facts = ModelCallFacts(started_at=time.time_ns())
        began = time.perf_counter()
        place: Place | None = None
        with guard("recognise"):
            place = self._site.history(args, kwargs)
        messages = as_list(place.value) if place is not None else None
        if place is not None and messages is not None and isinstance(place.value, Iterator):
            args, kwargs = replaced(args, kwargs, place.at, messages)
        repaired: Repair | None = None
        refusal: BrokenHistoryError | None = None
        if place is not None and isinstance(messages, Sequence):
            try:
                found = self._mend(messages, args, kwargs, facts)
            except BrokenHistoryError as error:
                refusal = error
            except Exception as error:  # noqa: BLE001 - the guard around our own code
                facts.outcome = "fault"
                report_fault("repair", error)
            else:
                if found is not None and found.changed:
                    repaired = found
                    args, kwargs = replaced(args, kwargs, place.at, found.messages)
        facts.repair_seconds = time.perf_counter() - began
        report = self._report(facts, args, kwargs)
        return Run(
            args,
            kwargs,
            report=report,
            repaired=repaired,
            refusal=refusal,
            on_repair=self._options.on_repair,
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
        facts.mode = policy.mode
        facts.messages = len(messages)
        try:
            hint = self._provider if self._provider in FORMATS else None
            wire = find_format(messages, self._options.format, hint)
            name = wire.NAME if wire is not None else None
            found = repair(messages, name, policy)
        except HistoryError:
            return None
        except BrokenHistoryError as error:
            facts.note(wire, messages, "raised", error.findings, count(error.findings))
            raise
        if found.changed:
            outcome = "repaired"
        elif any(finding.action == "observed" for finding in found.findings):
            outcome = "observed"
        else:
            outcome = "clean"
        facts.note(wire, messages, outcome, found.findings, found.counts)
        facts.first_changed_index = found.first_changed_index
        return found

    def _policy(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Policy:
        policy = self._options.policy
        mode = settings().mode
        if mode is not None and mode != policy.mode:
            policy = replace(policy, mode=mode)
        if policy.server_state is None and self._site.has_server_state(args, kwargs):
            policy = replace(policy, server_state=True)
        return policy

    def _report(
        self, facts: ModelCallFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ModelCallReport | None:
        if not self._is_counted:
            return None
        with guard("telemetry"):
            model = self._options.model or self._site.argument(MODEL_NAMES, args, kwargs)
            facts.model = model if isinstance(model, str) and model else UNKNOWN
            facts.provider = self._provider
        outer = outermost_run()
        if outer is not None:
            if outer.report is not None:
                with guard("telemetry"):
                    outer.report.facts.absorb(facts)
            return None
        with guard("thread"):
            facts.thread = self._thread(args, kwargs)
        return ModelCallReport(facts)

    def _thread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        option = self._options.thread
        named = option(self._site.bound(args, kwargs)) if callable(option) else option
        found = (
            named
            or current_thread()
            or self._site.argument(THREAD_NAMES, args, kwargs)
            or thread_from_baggage()
            or framework_thread(self._site, args, kwargs)
        )
        if found is None or isinstance(found, bool) or not isinstance(found, str | int | UUID):
            return None
        label = self._options.thread_label or settings().thread_label
        return _hashed(str(found)) if label == "hash" else str(found)


def _hashed(thread_id: str) -> str:
    key = settings().digest_key.encode()[:64]
    return blake2b(thread_id.encode("utf-8", "surrogatepass"), key=key, digest_size=8).hexdigest()
