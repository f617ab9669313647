"""What a host wants beyond the rules of its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Profile = Literal["mistral", "deepseek-thinking", "dashscope", "bedrock-open-weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host wants beyond the rules of its format.

    Attributes:
        profile: A host with rules of its own: `mistral`, `deepseek-thinking` and `dashscope` for
            `openai-chat` and `langchain`, `bedrock-open-weights` for `bedrock`; without effect on
            other formats.
        max_id_len: The longest id that the host takes.
        strict_alternation: The host joins no neighbouring user messages of Anthropic.

    Raises:
        ValueError: The profile is unknown, or the length is no positive integer.
    """

    profile: Profile | None = None
    max_id_len: int | None = None
    strict_alternation: bool = False

    def __post_init__(self) -> None:
        if self.profile is not None and self.profile not in get_args(Profile):
            names = ", ".join(repr(name) for name in get_args(Profile))
            raise ValueError(f"profile is None or one of {names}, not {self.profile!r}")
        length: object = self.max_id_len
        if length is not None and (
            isinstance(length, bool) or not isinstance(length, int) or length < 1
        ):
            raise ValueError(f"max_id_len is None or a positive integer, not {length!r}")


ANY_HOST = Host()
"""The provider of the format itself."""
