"""What the strict provider answers to a legal request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

JsonObject = dict[str, object]

_FIRST_ERROR_STATUS = 400


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model makes.

    Attributes:
        name: Name of the tool.
        arguments: Its arguments, made of JSON values.
        id: The id of the call; None lets the provider number it: `call_000001` in OpenAI and Gemini,
            `toolu_000001` in Anthropic Messages, `tooluse_000001` in Bedrock.
    """

    name: str
    arguments: Mapping[str, object]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model, or of the service in front of it.

    Attributes:
        text: The text of the answer; empty for none.
        tool_calls: The calls of the answer, behind its text.
        delay_seconds: How long the provider waits before it answers.
        status: HTTP status; None is 200, and 500 if there is an `error`.
        error: Text of an error, which goes out in the shape of the provider that was asked.

    Raises:
        ValueError: An error comes with a status below 400.
    """

    text: str = "ok"
    _: KW_ONLY
    tool_calls: tuple[ToolCall, ...] = ()
    delay_seconds: float = 0
    status: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.error is not None and self.http_status < _FIRST_ERROR_STATUS:
            raise ValueError(f"an error needs a status of 400 or more, not {self.status}")

    @property
    def http_status(self) -> int:
        """The HTTP status of the answer."""
        if self.status is not None:
            return self.status
        return 200 if self.error is None else 500

    @property
    def is_error(self) -> bool:
        """Whether the answer is an error."""
        return self.http_status >= _FIRST_ERROR_STATUS


ReplyFunction = Callable[[JsonObject, str], Reply]
"""Makes the reply to a request, from its body and its path."""


def short_reply(body: JsonObject, path: str) -> Reply:  # noqa: ARG001 - every format takes both
    """Answer `ok`."""
    return Reply()
