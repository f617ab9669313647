"""Wire formats: each knows how to recognise, check, read and write its own histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from toolmend.formats import anthropic, bedrock, gemini, langchain, openai_chat, openai_responses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.formats.batches import CallFacts
    from toolmend.mending.layout import Slot
    from toolmend.mending.plan import Plan
    from toolmend.mending.policy import Policy
    from toolmend.mending.transcript import Rules, Transcript


class Format(Protocol):
    """What a module of this package offers."""

    NAME: str
    RULES: Rules

    def is_legal(self, messages: Sequence[object], policy: Policy) -> bool:
        """Tell in one pass whether nothing has to be done."""
        ...

    def read(self, messages: Sequence[object]) -> Transcript:
        """Read a history into the normal form."""
        ...

    def calls_of(self, message: object) -> list[CallFacts] | None:
        """Return the calls of an assistant message, None for any other message."""
        ...

    def begins(self, message: object) -> bool:
        """Tell whether the user speaks and answers no call, so that a turn may begin here."""
        ...

    def write(self, messages: Sequence[object], plan: Plan, slot: Slot) -> object:
        """Write one changed or new message."""
        ...


FORMATS: Final[dict[str, Format]] = {
    module.NAME: cast("Format", module)
    for module in (anthropic, bedrock, gemini, langchain, openai_chat, openai_responses)
}
