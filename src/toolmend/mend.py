"""repair() and check(): recognise a history, look at it once, and mend it where it has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

from toolmend.errors import BrokenHistoryError, PolicyError, UnrecognizedHistoryError
from toolmend.formats import FORMATS, Format
from toolmend.formats.hosts import suits_host
from toolmend.formats.recognise import recognise
from toolmend.mending.findings import ALL_CAUSES, MAIN_COUNTERS, Cause, Finding
from toolmend.mending.frozen import FrozenMapping
from toolmend.mending.layout import Slot
from toolmend.mending.plan import Plan, make_plan
from toolmend.mending.policy import Policy, checked_policy
from toolmend.mending.transcript import Rules
from toolmend.segments import Excerpt, excerpt
from toolmend.tails import Tail, Tails

Operation = Literal["insert", "remove", "move", "replace"]
UNKNOWN_FORMAT: Final = "unknown"
_MAX_STEPS_BACK: Final = 4
_NO_CAUSES: Final[Mapping[str, Cause]] = FrozenMapping({})
_NO_COUNTS: Final[Mapping[str, int]] = FrozenMapping(dict.fromkeys(MAIN_COUNTERS, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a list of messages, in indices of the list handed in.

    Attributes:
        operation: ``insert`` puts ``message`` in front of what stands at ``index``, ``replace`` puts it
            in the place of that, ``remove`` and ``move`` take that out. What a ``move`` took out comes
            back as an ``insert`` elsewhere.
        index: position in the list handed in.
        message: the message that comes in, None where one goes.
        source: of an insert: the index it was moved from, None when it is new.
        synthetic: whether something in ``message`` is made up.
    """

    operation: Operation
    index: int
    message: object = None
    source: int | None = None
    synthetic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What ``repair`` did.

    Attributes:
        messages: the mended history; the very list handed in when nothing changed.
        changed: whether something did.
        findings: every fault and what was done about it, in the order of the messages.
        counts: read-only counters; the five main ones are always there.
        format: the wire format.
        edits: the changes, in indices of the list handed in. Applied from the last to the first they
            give ``messages``.
    """

    messages: Sequence[object]
    changed: bool
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: _NO_COUNTS)
    format: str = UNKNOWN_FORMAT
    edits: tuple[Edit, ...] = ()

    @property
    def first_changed_index(self) -> int | None:
        """Index of the first message that changed, in the list handed in; None when none did."""
        return min((edit.index for edit in self.edits), default=None)


def repair(
    messages: Sequence[object],
    format: str | None = None,
    policy: Policy | None = None,
    causes: Mapping[str, str] | None = None,
) -> Repair:
    """Mend a history so that its provider accepts it.

    The list and its messages are never changed; a legal history comes back as it is. The result depends
    on the input alone, in any process, so that prompt caches stay valid.

    Args:
        messages: a list of dicts, SDK objects or LangChain messages, also mixed.
        format: ``openai-chat``, ``openai-responses``, ``anthropic``, ``gemini``, ``bedrock`` or
            ``langchain``; recognised from the messages if None.
        policy: what to do about faults; the default patches open calls with placeholder results.
        causes: ids of calls and why they have no result, where that is known from elsewhere: one of
            ``timeout``, ``cancelled``, ``crashed``, ``breaker_open``, ``tool_error``, ``result_lost``
            or a cause that is inferred. Findings carry it instead of the inferred one.

    Raises:
        UnrecognizedHistoryError: no format fits; name one with ``format=``.
        MalformedHistoryError: one message has a shape that nobody accepts; it tells which and what to do.
        BrokenHistoryError: under ``Policy(mode="raise")``, when something needs repair.
        PolicyError: a cause that nobody knows.
    """
    policy = checked_policy(policy)
    found = _mend(messages, format, policy, _checked_causes(causes))
    mode = policy.mode_for(None)
    if mode == "repair" or not _needs_repair(found.findings):
        return found
    if mode == "raise":
        raise BrokenHistoryError(found.findings)
    return replace(
        found,
        messages=messages,
        changed=False,
        edits=(),
        findings=tuple(
            finding if finding.action == "left" else replace(finding, action="observed")
            for finding in found.findings
        ),
    )


def check(
    messages: Sequence[object],
    format: str | None = None,
    policy: Policy | None = None,
) -> tuple[Finding, ...]:
    """Return what ``repair`` would find; when all of it is ``left``, the history is legal.

    The mode of the policy is ignored. Arguments and errors are those of ``repair``.
    """
    return _mend(messages, format, checked_policy(policy)).findings


def _checked_causes(causes: Mapping[str, str] | None) -> Mapping[str, Cause]:
    if not causes:
        return {}
    unknown = sorted({cause for cause in causes.values() if cause not in ALL_CAUSES}, key=repr)
    if unknown:
        raise PolicyError(f"there is no cause {unknown[0]!r}; use one of {', '.join(ALL_CAUSES)}")
    return cast("Mapping[str, Cause]", causes)


def _needs_repair(findings: Sequence[Finding]) -> bool:
    return any(finding.action != "left" for finding in findings)


def _mend(
    messages: Sequence[object],
    format_name: str | None,
    policy: Policy,
    causes: Mapping[str, Cause] = _NO_CAUSES,
) -> Repair:
    wire = find_format(messages, format_name)
    if wire is None:
        return Repair(messages=messages, changed=False)
    if wire.is_legal(messages, policy) and (
        not policy.asks_more or suits_host(messages, wire, policy)
    ):
        return Repair(messages=messages, changed=False, format=wire.NAME)
    part = excerpt(messages, wire, policy)
    if part is not None:
        plan = make_plan(wire.read(part.messages), wire.RULES, policy, causes, part.other_ids)
        if part.can_expand(plan):
            return _expanded(messages, part, wire, plan)
    windowed = _windowed(messages, wire, policy, causes)
    if windowed is not None:
        return windowed
    return _planned(messages, wire, make_plan(wire.read(messages), wire.RULES, policy, causes))


def _expanded(messages: Sequence[object], found: Excerpt, wire: Format, plan: Plan) -> Repair:
    """Return what was planned for an excerpt as the repair of the whole history."""
    mended = _planned(found.messages, wire, plan)
    places = [*found.sources, len(messages)]
    if not mended.changed:
        return _relocated(mended, places, messages)
    whole: list[object] = []
    for slot, message in zip(plan.slots, mended.messages, strict=True):
        whole.append(message)
        left_out = found.behind(slot)
        if left_out is not None:
            start, count = left_out
            whole.extend(messages[start : start + count])
    return _relocated(mended, places, whole)


def _windowed(
    messages: Sequence[object], wire: Format, policy: Policy, causes: Mapping[str, Cause]
) -> Repair | None:
    """Mend what the policy's window shows, and pass what stands before it; None to look at all."""
    if policy.window is None:
        return None
    # What comes first there is not the head of the history.
    rules = replace(wire.RULES, stubs_head=False, head="any")
    tails = Tails(messages, wire, policy)
    size = policy.window
    for _ in range(_MAX_STEPS_BACK):
        if size >= len(messages):
            break
        tail = tails.near(size)
        plan = None if tail is None else make_plan(tail.transcript, rules, policy, causes)
        if tail is None or plan is None or plan.call_ids:  # new ids must meet none before
            tail = tails.far(size)
            if tail is None:
                break
            plan = make_plan(tail.transcript, rules, policy, causes, tail.ids_before or ())
        start, slots = tail.start, plan.slots
        hidden = policy.window - len(slots)
        if hidden > 0:  # what leaves lets others into sight, that the next repair would look at
            size = len(messages) - start + hidden
        elif _makes_neighbours(tail, plan, rules):
            size = len(messages) - tails.opening(start)
        else:
            found = _planned(messages[start:], wire, plan)
            whole = [*messages[:start], *found.messages] if found.changed else messages
            return _relocated(found, range(start, len(messages) + 1), whole)
    return None


def _makes_neighbours(tail: Tail, plan: Plan, rules: Rules) -> bool:
    """Tell whether what leaves at the cut lets messages meet that the format takes for one."""
    role = plan.slots[0].role
    are_one = rules.alternates or (rules.joins_turns and role == "assistant")
    return are_one and role == tail.role_before != tail.transcript.messages[0].role


def _relocated(found: Repair, places: Sequence[int], messages: Sequence[object]) -> Repair:
    """Return the repair of a part of a history as one of the whole.

    Args:
        found: the repair of the part.
        places: where each message of the part stands in the whole, and where what follows it does.
        messages: the whole history, mended.
    """
    return replace(
        found,
        messages=messages,
        findings=tuple(
            finding if finding.index < 0 else replace(finding, index=places[finding.index])
            for finding in found.findings
        ),
        edits=tuple(
            replace(
                edit,
                index=places[edit.index],
                source=None if edit.source is None else places[edit.source],
            )
            for edit in found.edits
        ),
    )


def _planned(messages: Sequence[object], wire: Format, plan: Plan) -> Repair:
    if not _needs_repair(plan.findings):
        return Repair(messages=messages, changed=False, findings=plan.findings, format=wire.NAME)
    mended = [_written(wire, messages, plan, slot) for slot in plan.slots]
    return Repair(
        messages=mended,
        changed=True,
        findings=plan.findings,
        counts=plan.counts,
        format=wire.NAME,
        edits=_edits(messages, plan.slots, mended),
    )


def find_format(
    messages: Sequence[object],
    name: str | None = None,
    hint: str | None = None,
) -> Format | None:
    """Return the format of a history; None for an empty one.

    Raises:
        UnrecognizedHistoryError: no list, no format fits, or none has that name.
    """
    given: object = messages
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise UnrecognizedHistoryError(
            f"messages must be a list of messages; pass one instead of {type(given).__name__}"
        )
    known = ", ".join(sorted(FORMATS))
    if name is not None:
        if name not in FORMATS:
            raise UnrecognizedHistoryError(f"there is no format {name!r}; use one of {known}")
    elif not messages:
        return None
    else:
        name = recognise(messages, hint)
        if name is None:
            raise UnrecognizedHistoryError(
                f"no wire format fits these messages; name one with format= ({known})"
            )
    return FORMATS[name]


def _written(wire: Format, messages: Sequence[object], plan: Plan, slot: Slot) -> object:
    if slot.parts is None and slot.source is not None:
        return messages[slot.source]
    return wire.write(messages, plan, slot)


def _edits(
    messages: Sequence[object], slots: Sequence[Slot], mended: Sequence[object]
) -> tuple[Edit, ...]:
    moved = {slot.source for slot in slots if slot.is_moved}
    edits: list[Edit] = []
    arriving: list[tuple[Slot, object]] = []
    at = 0

    def leave(up_to: int) -> None:
        nonlocal at
        while at < up_to:
            edits.append(Edit(operation="move" if at in moved else "remove", index=at))
            at += 1

    def arrive() -> None:
        edits.extend(
            Edit(
                operation="insert",
                index=at,
                message=message,
                source=slot.source,
                synthetic=slot.is_synthetic,
            )
            for slot, message in arriving
        )
        arriving.clear()

    for slot, message in zip(slots, mended, strict=True):
        if slot.source is None or slot.is_moved:
            arriving.append((slot, message))
            continue
        arrive()
        leave(slot.source)
        if slot.parts is not None:
            edits.append(
                Edit(
                    operation="replace",
                    index=slot.source,
                    message=message,
                    synthetic=slot.is_synthetic,
                )
            )
        at = slot.source + 1
    arrive()
    leave(len(messages))
    return tuple(edits)
