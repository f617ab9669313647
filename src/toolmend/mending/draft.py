"""Draft: the decisions about one history while they are being taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolmend.mending.findings import Action, Cause, Finding, Kind
from toolmend.mending.policy import OpenCall, Policy
from toolmend.mending.transcript import (
    Call,
    Content,
    ContentKind,
    Part,
    Result,
    Rules,
    Transcript,
)
from toolmend.mending.turns import Turn, find_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolmend.mending.match import Match


@dataclass(slots=True, kw_only=True)
class Draft:
    """What leaves, what is made up, and why.

    Attributes:
        transcript: the history.
        rules: what its format asks.
        policy: what the caller asks.
        keeps_server_state: nothing may be removed or renamed: the rest is on the provider's server.
        causes: ids of calls and why they have no result, known from elsewhere.
        match: who answers whom.
        findings: what was found so far.
        gone_calls: numbers of calls that leave.
        gone_results: numbers of results that leave.
        gone_content: (message, slot) of other content that leaves.
        empty: indices of messages that were empty in the input and leave.
        made: number of a call -> cause of its placeholder.
        kept: numbers of calls that carry the signature of a batch which stays.
        cuts: indices of assistant messages behind which results will be put, ending a turn there.
        results_dropped_with_call: how many results left with their call.
    """

    transcript: Transcript
    rules: Rules
    policy: Policy
    keeps_server_state: bool
    causes: Mapping[str, Cause]
    match: Match
    findings: list[Finding] = field(default_factory=list)
    gone_calls: set[int] = field(default_factory=set)
    gone_results: set[int] = field(default_factory=set)
    gone_content: set[tuple[int, int]] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    made: dict[int, Cause] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    cuts: set[int] = field(default_factory=set)
    results_dropped_with_call: int = 0
    _state: tuple[int, ...] = ()
    _turns: list[Turn] = field(default_factory=list)

    def is_gone(self, part: Part) -> bool:
        """Tell whether a part of the input leaves."""
        if isinstance(part, Call):
            return part.number in self.gone_calls
        if isinstance(part, Result):
            return part.number in self.gone_results
        return (part.message, part.slot) in self.gone_content

    def remove_call(self, call: Call) -> None:
        """Take a call out, together with the result it owns."""
        self.gone_calls.add(call.number)
        result = self.match.answers.get(call.number)
        if result is not None:
            self.gone_results.add(result)
            self.results_dropped_with_call += 1

    def gone_messages(self) -> set[int]:
        """Return the indices of messages that are not there after what was removed so far."""
        touched = {self.transcript.calls[number].message for number in self.gone_calls}
        touched |= {self.transcript.results[number].message for number in self.gone_results}
        touched |= {message for message, _ in self.gone_content}
        messages = self.transcript.messages
        return self.empty | {
            index
            for index in touched
            if all(self.is_gone(part) or is_mark(part) for part in messages[index].parts)
        }

    def turns(self) -> list[Turn]:
        """Return the assistant turns as they are after what was removed so far; not to be changed."""
        # What leaves never comes back, so the sizes tell whether anything has left since.
        state = (
            len(self.gone_calls),
            len(self.gone_results),
            len(self.gone_content),
            len(self.empty),
            len(self.cuts),
        )
        if state != self._state:
            self._state = state
            self._turns = find_turns(
                self.transcript,
                self.rules,
                gone=self.gone_messages(),
                dropped=self.gone_calls,
                cuts=self.cuts,
            )
        return self._turns

    def result_of(self, call: Call) -> Result | None:
        """Return the result that a call owns and keeps."""
        number = self.match.answers.get(call.number)
        if number is None or number in self.gone_results:
            return None
        return self.transcript.results[number]

    def is_placeholder(self, result: Result, call: Call) -> bool:
        """Tell whether a result is a placeholder that an earlier repair wrote."""
        return is_placeholder(self.policy, result, call)

    def known_cause(self, call: Call | None, inferred: Cause) -> Cause:
        """Return why a call has no result: as it is known from elsewhere, else as inferred."""
        if call is None or call.id is None:
            return inferred
        return self.causes.get(call.id, inferred)

    def find(
        self,
        kind: Kind,
        action: Action,
        *,
        call: Call | None = None,
        result: Result | None = None,
        index: int = -1,
        cause: Cause | None = None,
        detail: str = "",
    ) -> None:
        """Note a finding about a call, about a result, or about the message at an index."""
        if result is not None:
            index = result.message
        elif call is not None:
            index = call.message
        call_id = call.id if call is not None else result.id if result is not None else None
        self.findings.append(
            Finding(
                kind=kind,
                action=action,
                index=index,
                call_id=call_id,
                tool_name=(call.name or None) if call is not None else None,
                cause=cause if cause is None else self.known_cause(call, cause),
                detail=detail,
            )
        )


def is_placeholder(policy: Policy, result: Result, call: Call) -> bool:
    """Tell whether a result is a placeholder that an earlier repair wrote."""
    text = result.text()
    return text is not None and policy.is_placeholder(text, open_call(call, "unknown"))


def open_call(call: Call, cause: Cause) -> OpenCall:
    """Return a call as functions in a policy see it."""
    return OpenCall(name=call.name, id=call.id, arguments=call.arguments, cause=cause)


def has_other_content(draft: Draft, index: int) -> bool:
    """Tell whether a message keeps something that is neither call nor result of a call."""
    return any(
        is_other_content(draft, part) and not draft.is_gone(part)
        for part in draft.transcript.messages[index].parts
    )


def is_other_content(draft: Draft, part: Part) -> bool:
    """Tell whether a part is neither call nor result; a server result without call is none for a client."""
    if isinstance(part, Result):
        return part.server and part.number not in draft.match.owners
    return isinstance(part, Content) and part.kind is not ContentKind.MARK


def is_mark(part: object) -> bool:
    """Tell whether a part is a mark for the provider, which cannot stand alone."""
    return isinstance(part, Content) and part.kind is ContentKind.MARK
