"""Strategies: histories of each format and policies, for Hypothesis and from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.property.damage import OWN_PLACEHOLDER, Damage
from tests.property.outline import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    GEMINI,
    IDS,
    LANGCHAIN,
    Builder,
    Choices,
    Drawn,
    Seeded,
    chance,
    pick,
)
from tests.property.rendering import render
from toolmend import Policy
from toolmend.mending.findings import ALL_CAUSES
from toolmend.mending.policy import OpenCall


def patch_even(call: OpenCall) -> str:
    return "patch" if call.name[-1:] in set("02468") else "drop"


def own_text(call: OpenCall) -> str:
    return f"nothing from {call.name}"


def is_early_letter(call_id: str) -> bool:
    return call_id in ("a", "b")


DANGLING = ("patch", "patch", "drop", patch_even)
IN_FLIGHT = ((), (), ("a",), ("a", "c", "t9"), is_early_letter)
PLACEHOLDER = (
    None,
    "The call {call_id} of {tool_name} has no result.",
    {"tool_1": "first", "*": "other {call_id}"},
    {"tool_2": "second"},
    own_text,
    "{cause}: unknown outcome",
)
PROFILES = {
    CHAT: ("mistral", "deepseek-thinking", "dashscope"),
    LANGCHAIN: ("mistral", "dashscope"),
    BEDROCK: ("bedrock-open-weights",),
}
USES_CAUSE = PLACEHOLDER[-1]
WINDOWS = (None, None, None, 1, 2, 3, 5, 8)
MAY_HAVE_CAUSE = (*IDS, "t6", "srv_1")


@dataclass(frozen=True)
class Sample:
    format: str
    messages: list[Any]
    policy: Policy | None = None
    more: tuple[Any, ...] = ()
    """Messages that are appended later."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """Ids of calls and why they have no result, as who ran them knows it."""

    def in_flight_ids(self) -> frozenset[str]:
        if self.policy is None:
            return frozenset()
        if callable(self.policy.in_flight):
            return frozenset(("a", "b"))
        return frozenset(self.policy.in_flight)


def build_policy(choices: Choices, format: str, *, may_use_cause: bool = True) -> Policy:
    placeholder = pick(choices, PLACEHOLDER)
    if placeholder == USES_CAUSE and not may_use_cause:
        placeholder = None
    profile = None
    if format in PROFILES and chance(choices, 3):
        profile = pick(choices, PROFILES[format])
    return Policy(
        profile=profile,
        max_id_len=pick(choices, (None, None, None, 40)),
        strict_alternation=format == ANTHROPIC and chance(choices, 4),
        dangling=pick(choices, DANGLING),
        orphans=pick(choices, ("drop", "drop", "keep")),
        trailing=pick(choices, ("patch", "patch", "leave")),
        in_flight=pick(choices, IN_FLIGHT),
        placeholder=placeholder,
        language=pick(choices, ("en", "zh")),
        placeholder_texts=pick(choices, ((), (OWN_PLACEHOLDER,))),
        text_from_record=chance(choices, 2),
        window=pick(choices, WINDOWS),
    )


def build_causes(choices: Choices) -> dict[str, str]:
    return {name: pick(choices, ALL_CAUSES) for name in MAY_HAVE_CAUSE if chance(choices, 2)}


def build_legal(choices: Choices, format: str) -> Sample:
    items = Builder(choices, format).legal()
    return Sample(format, render(format, items))


def build_damaged(
    choices: Choices, format: str, *, with_policy: bool = False, is_server_side: bool = False
) -> Sample:
    builder = Builder(choices, format)
    builder.legal()
    damage = Damage(builder)
    for _ in range(choices.below(7)):
        damage.step()
    messages = render(format, builder.items)
    policy = build_policy(choices, format) if with_policy else None
    if is_server_side:
        policy = replace(policy or Policy(), server_state=True)
    causes = build_causes(choices) if with_policy else {}
    return Sample(format, messages, policy, causes=causes)


def build_growing(choices: Choices, format: str) -> Sample:
    """Build a damaged history that ends in a complete state, and an exchange to append."""
    builder = Builder(choices, format)
    builder.legal(open_end=False)
    damage = Damage(builder)
    for _ in range(choices.below(7)):
        damage.step()
    messages = render(format, builder.items)
    policy = build_policy(choices, format, may_use_cause=False) if chance(choices, 2) else None
    if policy is not None:
        policy = replace(policy, trailing="patch", in_flight=())
    fresh = Builder(choices, format)
    fresh.exchange(open_end=False)
    for item in fresh.items:
        for part in item.parts:
            if part.id is not None:
                part.id = f"fresh_{part.id}"
            part.mark = part.mark.replace("-", "-9000").replace("tool_", "tool_9000")
            if format == GEMINI and part.name:
                part.name = f"fresh_{part.name}"
    more = tuple(render(format, fresh.items))
    return Sample(format, messages, policy, more, {} if policy is None else build_causes(choices))


@st.composite
def legal_histories(draw: st.DrawFn, format: str) -> Sample:
    return build_legal(Drawn(draw), format)


@st.composite
def damaged_histories(
    draw: st.DrawFn, format: str, *, with_policy: bool = False, is_server_side: bool = False
) -> Sample:
    return build_damaged(
        Drawn(draw), format, with_policy=with_policy, is_server_side=is_server_side
    )


@st.composite
def growing_histories(draw: st.DrawFn, format: str) -> Sample:
    return build_growing(Drawn(draw), format)


def seeded(seed: int, format: str, *, with_policy: bool) -> Sample:
    return build_damaged(Seeded(seed), format, with_policy=with_policy)
