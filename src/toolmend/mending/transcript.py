"""Transcript: the normal form that every wire format is read into.

A transcript is a list of messages; a message is a list of parts in wire order: calls, results and
other content. Calls and results are numbered through, so that later steps talk about numbers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Role = Literal["system", "user", "assistant", "tool", "other", "unknown"]
ArgumentsState = Literal["fine", "wrong_type", "unreadable"]
"""Of a wrong type: the object is there, not as the format wants it. Unreadable: cut off or no object."""


class ContentKind(enum.Enum):
    """What a part is that is neither a call nor a result."""

    PLAIN = "plain"
    REASONING = "reasoning"
    LED = "led"
    """What reasoning may lead to, apart from a call: an answer, or an item that the provider ran."""
    MARK = "mark"
    """Says nothing: a mark for the provider, which cannot stand alone."""
    BLANK = "blank"
    """Content that the provider refuses because nothing is in it."""


class Content(NamedTuple):
    """Other content of a message: text, an image, reasoning."""

    message: int
    slot: int
    kind: ContentKind


class Call(NamedTuple):
    """One tool call."""

    number: int
    message: int
    slot: int
    """Where it stands in its message, in the format's own counting."""
    id: str | None
    """As the input has it; None when it is missing or blank."""
    key: Hashable
    """What a result of this call carries, too."""
    name: str
    """Empty when the call has no usable name."""
    arguments: object
    state: ArgumentsState
    is_fixable: bool
    """Whether arguments that are not fine may be replaced."""
    server: bool
    """Run by the provider and answered inside the assistant turn."""
    answerable: bool
    """Whether a placeholder can be written for its family."""
    pinned: bool
    """Never dropped: it stands beside signed reasoning."""
    signed: bool
    """Not dropped while other calls of its turn stay: it carries the signature for them."""
    family: str
    """Which kind of result answers it, where a format has several; else empty."""
    has_bad_item_id: bool
    """Whether an id of the block itself, apart from the id that pairs call and result, is refused."""


class Result(NamedTuple):
    """One tool result."""

    number: int
    message: int
    slot: int
    id: str | None
    key: Hashable
    text: Callable[[], str | None]
    """Its text, read when it is needed; None when it is not text alone."""
    server: bool
    family: str
    """The kind of calls it answers, where a format has several; else empty."""


Part = Call | Result | Content


class Message(NamedTuple):
    """One message: its role and its parts in wire order."""

    role: Role
    parts: Sequence[Part]
    empty: bool = False
    """It holds nothing although its format wants something in it."""
    is_blank: bool = False
    """It says nothing, which its format takes and some hosts refuse."""
    has_empty_call_list: bool = False
    """It carries an empty list of calls, which its format refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a format asks of a history, as far as formats differ.

    Attributes:
        result_role: role of the messages that results stand in.
        joins_turns: neighbouring messages of one role count as one turn.
        ids_unique_in_request: an id is used once in the request, else once in a turn.
        is_legal_id: whether an id may be sent.
        patch_result_turns: new results go into the message behind the calls, else each has its own.
        stubs_head: a user message at the head that was left empty gets a short text.
        system_needs_user_turn: a system message never stands right behind an assistant turn.
        reasoning_needs_successor: an assistant turn that is not the last never ends in reasoning.
        reasoning_leads: reasoning is followed by what it led to: a call, a server item or an answer.
        results_anywhere: a result may stand anywhere behind its call, else right behind its turn.
        results_lead: results come first in the message they stand in.
        results_alone: results of several calls stand in one message of their own, in the order of
            the calls when it is written anew.
        ids_optional: an id may be missing.
        alternates: user and assistant take turns, so neighbours of one role are joined.
        write_arguments: how arguments that are not as the format wants them are written.
        head: what may not stand first: an assistant message with calls, or any.
    """

    result_role: Role
    joins_turns: bool
    ids_unique_in_request: bool
    is_legal_id: Callable[[str], bool]
    patch_result_turns: bool
    stubs_head: bool
    system_needs_user_turn: bool
    reasoning_needs_successor: bool
    reasoning_leads: bool = False
    results_anywhere: bool = False
    results_lead: bool = True
    results_alone: bool = False
    ids_optional: bool = False
    alternates: bool = False
    write_arguments: Callable[[object], object] = lambda arguments: arguments
    head: Literal["any", "no_calls", "no_assistant"] = "any"


@dataclass(slots=True, kw_only=True)
class Transcript:
    """A history in normal form.

    Attributes:
        messages: the messages in order.
        calls: all calls, by number.
        results: all results, by number.
        refers_to_server: some of it lies on the provider's server and is only referred to.
    """

    messages: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    refers_to_server: bool = False

    def add_call(
        self,
        *,
        slot: int,
        id: object,
        name: object,
        arguments: object,
        state: ArgumentsState = "fine",
        is_fixable: bool = True,
        server: bool = False,
        answerable: bool = True,
        pinned: bool = False,
        signed: bool = False,
        key: Hashable = None,
        family: str = "",
        has_bad_item_id: bool = False,
    ) -> Call:
        """Return a new call of the message that is being read."""
        usable = usable_id(id)
        call = Call(
            len(self.calls),
            len(self.messages),
            slot,
            usable,
            _key(usable, server=server) if key is None else key,
            name if isinstance(name, str) and name.strip() else "",
            arguments,
            state,
            is_fixable,
            server,
            answerable,
            pinned,
            signed,
            family,
            has_bad_item_id,
        )
        self.calls.append(call)
        return call

    def add_result(
        self,
        *,
        slot: int,
        id: object,
        text: Callable[[], str | None],
        server: bool = False,
        key: Hashable = None,
        family: str = "",
    ) -> Result:
        """Return a new result of the message that is being read."""
        usable = usable_id(id)
        result = Result(
            len(self.results),
            len(self.messages),
            slot,
            usable,
            _key(usable, server=server) if key is None else key,
            text,
            server,
            family,
        )
        self.results.append(result)
        return result

    def content(self, slot: int, kind: ContentKind = ContentKind.PLAIN) -> Content:
        """Return other content of the message that is being read."""
        return Content(len(self.messages), slot, kind)

    def trim_result_keys(self) -> dict[int, Hashable]:
        """Return the keys of results whose id fits a call only when blanks are trimmed."""
        known = {call.key for call in self.calls}
        strays = [result for result in self.results if result.key not in known]
        if not strays:
            return {}
        trimmed: dict[tuple[str, bool], Hashable] = {}
        for call in self.calls:
            if call.id is not None:
                trimmed.setdefault((call.id.strip(), call.server), call.key)
        return {
            result.number: trimmed[result.id.strip(), result.server]
            for result in strays
            if result.id is not None and (result.id.strip(), result.server) in trimmed
        }


def usable_id(value: object) -> str | None:
    """Return an id that can be matched, or None: missing, blank, or no text at all."""
    if isinstance(value, str) and value and not value.isspace():
        return value
    return None


_MISSING: Final = (None, "client")
_MISSING_SERVER: Final = (None, "server")


def _key(usable: str | None, *, server: bool) -> Hashable:
    if usable is None:
        return _MISSING_SERVER if server else _MISSING
    return (usable, "server") if server else usable
