"""The cast: the models, the tools and the conversations of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Wire = Literal["openai-chat", "anthropic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model and how it is reached."""

    name: str
    provider: Literal["openai", "anthropic"]
    wire: Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One user and the application that serves them.

    Attributes:
        name: the user; their first conversation is called the same.
        model: the model that the application asks.
        is_streaming: whether it reads answers as a stream.
        keeps_mends: whether it writes the mended history back into its store.
        stores_each: whether it stores the results that are there when one tool fails; else a failing
            tool takes the results of the whole batch with it.
    """

    name: str
    model: Model
    is_streaming: bool = False
    keeps_mends: bool
    stores_each: bool

    def conversation(self, season: int) -> str:
        """Return the id of the conversation of a season, from 0."""
        return self.name if season == 0 else f"{self.name}{season + 1}"


GPT: Final = Model(name="gpt-demo", provider="openai", wire="openai-chat")
MINI: Final = Model(name="gpt-mini", provider="openai", wire="openai-chat")
CLAUDE: Final = Model(name="claude-demo", provider="anthropic", wire="anthropic")
MODELS: Final = (GPT, MINI, CLAUDE)

ROLES: Final = (
    Role(name="ann", model=GPT, keeps_mends=True, stores_each=True),
    Role(name="ben", model=GPT, keeps_mends=False, stores_each=False),
    Role(name="cal", model=MINI, is_streaming=True, keeps_mends=True, stores_each=False),
    Role(name="dan", model=MINI, is_streaming=True, keeps_mends=False, stores_each=True),
    Role(name="eve", model=CLAUDE, keeps_mends=True, stores_each=True),
    Role(name="flo", model=CLAUDE, keeps_mends=False, stores_each=False),
)

TOOLS: Final = {
    "find_room": "Find a free hotel room in a city.",
    "pay_card": "Charge the card of the customer.",
    "send_mail": "Send an email.",
    "weather": "Look up the weather of a city.",
}
"""The tools by name, with what the model is told about them."""
