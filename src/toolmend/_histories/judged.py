"""One JSON text with a history in it: what is wrong with it, and its text after the repair."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from toolmend._histories.body import find_body
from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.json_text import JsonText, read_fast
from toolmend._histories.json_writer import with_messages
from toolmend._histories.langchain_dump import LangChainDump, is_dump, is_serialized
from toolmend.errors import HistoryError
from toolmend.mend import Repair, repair
from toolmend.mending.findings import MAIN_COUNTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolmend.mending.findings import Finding
    from toolmend.mending.policy import Policy

_LANGCHAIN: Final = "langchain"
_READS_ARGUMENTS: Final = frozenset(("invalid_arguments", "duplicate_call"))
"""Findings whose repair takes arguments for what Python reads in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A history that was looked at.

    Attributes:
        messages: the history, as it is read: dicts, or objects of LangChain.
        policy: the policy with what the request tells.
        outcome: what a repair does.
    """

    messages: Sequence[object]
    policy: Policy
    outcome: Repair
    _json_text: JsonText | None = field(default=None, repr=False)
    _listed: Sequence[Any] = field(default=(), repr=False)
    _dump: LangChainDump | None = field(default=None, repr=False)

    @property
    def format(self) -> str:
        """The wire format, ``unknown`` for an empty history."""
        return self.outcome.format

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, and what a repair does about it."""
        return self.outcome.findings

    @property
    def is_legal(self) -> bool:
        """Whether a provider takes it as it is."""
        return all(finding.action == "left" for finding in self.findings)

    @property
    def counts(self) -> Mapping[str, int]:
        """The counters of the repair; the five main ones are always there."""
        return self.outcome.counts or dict.fromkeys(MAIN_COUNTERS, 0)

    def mended_text(self) -> str | None:
        """Return the text with the mended history; None when nothing has to change.

        Raises:
            StoredHistoryError: the history can be mended, but not be written.
        """
        if not self.outcome.changed:
            return None
        assert self._json_text is not None
        if self._json_text.is_out_of_range and any(
            finding.kind in _READS_ARGUMENTS for finding in self.findings
        ):
            raise StoredHistoryError(
                "arguments hold a number that is too big to be compared or rewritten; make it a string"
            )
        mended = self.outcome.messages
        if self._dump is not None:
            mended = self._dump.written(mended, self._sources())
        return with_messages(self._json_text, self._listed, mended)

    def _sources(self) -> list[int | None]:
        """Return for each mended message the index of the one that it is a changed copy of."""
        copies = {
            id(edit.message): edit.index if edit.operation == "replace" else edit.source
            for edit in self.outcome.edits
        }
        return [copies.get(id(message)) for message in self.outcome.messages]


def judge(text: str, policy: Policy, format: str | None = None) -> Judged:
    """Look at the history in a JSON text.

    Args:
        text: a list of messages, or an object with one: a request body, or a line with a body in it.
        policy: what to do about faults; ``server_state=None`` is decided by the request.
        format: the wire format; None recognises it.

    Raises:
        StoredHistoryError: there is no history in it, or none that can be read.
        PolicyError: the policy cannot work for this history.
    """
    try:
        value = read_fast(text)
    except StoredHistoryError:
        raise
    except ValueError:  # a number with more digits than Python converts
        return _judge(JsonText(text), None, policy, format)
    judged = _judge(None, value, policy, format)
    if not judged.outcome.changed:
        return judged
    # Numbers that differ in writing alone are told apart now, and the text of each part is known.
    return _judge(JsonText(text), None, policy, format)


def verify(text: str, policy: Policy, format: str) -> None:
    """Make sure that a mended text is legal now.

    Raises:
        StoredHistoryError: it is not.
    """
    if not judge(text, policy, format).is_legal:
        raise StoredHistoryError("the repair leaves it broken, which is a fault of toolmend's")


def _judge(json_text: JsonText | None, value: object, policy: Policy, format: str | None) -> Judged:
    body = find_body(value if json_text is None else json_text.value)
    if policy.server_state is None and body.is_on_server:
        policy = replace(policy, server_state=True)
    if is_serialized(body.messages):
        raise StoredHistoryError(
            "LangChain's own serialization (lc) is not read; store messages_to_dict(messages)"
        )
    dump = None
    messages: Sequence[object] = body.messages
    if format in (None, _LANGCHAIN) and is_dump(body.messages):
        dump = LangChainDump(body.messages)
        messages = dump.objects
    try:
        outcome = repair(messages, format, policy)
    except HistoryError as error:
        raise StoredHistoryError(str(error).replace("format=", "--format")) from error
    return Judged(
        messages=messages,
        policy=policy,
        outcome=outcome,
        _json_text=json_text,
        _listed=body.messages,
        _dump=dump,
    )
