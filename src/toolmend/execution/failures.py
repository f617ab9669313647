"""Failures: what is known about a failed attempt, and the error that a failed call ends in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from toolmend.errors import PolicyError, ToolmendError
from toolmend.execution.error_types import MEANINGS
from toolmend.execution.numbers import is_seconds
from toolmend.formats.answers import answer_part
from toolmend.telemetry.names import ErrorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt failed; what a classifier of errors returns.

    Attributes:
        error_type: one of the closed set of ``toolmend.execution.error_types``.
        may_have_run: the other side may have acted all the same, so that only a retry-safe tool is
            called again. False for what was certainly never sent.
        retry_after_seconds: what the other side asked for, None if it did not.
        message: what the model is told, for the types that tell it something of their own.
        exception: what was raised, None when nothing was.
        where: for telemetry: which rule of the tool's own schema was broken; never a value.

    Raises:
        PolicyError: an error type that there is not, or a wait that is no number of seconds.
    """

    error_type: ErrorType
    may_have_run: bool = True
    retry_after_seconds: float | None = None
    message: str = ""
    exception: BaseException | None = None
    where: str = ""

    def __post_init__(self) -> None:
        if self.error_type not in MEANINGS:
            known = ", ".join(MEANINGS)
            raise PolicyError(f"Failure(error_type=…) is one of {known}; got {self.error_type!r}")
        wait: object = self.retry_after_seconds
        if wait is not None and not is_seconds(wait, least=0):
            raise PolicyError(
                f"Failure(retry_after_seconds=…) is a number of seconds from 0; got {wait!r}"
            )

    def may_repeat(self, *, is_retry_safe: bool) -> bool:
        """Tell whether another attempt may do no harm, for a tool of that kind."""
        repeats = MEANINGS[self.error_type].repeats
        if repeats == "if_safe":
            return is_retry_safe or not self.may_have_run
        return repeats == "always"


class AttemptFailed(Exception):  # noqa: N818 - it is told apart from the error of the whole call
    """One attempt failed; never leaves this package.

    Attributes:
        failure: why.
        may_repeat: whether it is worth another attempt.
    """

    def __init__(self, failure: Failure, *, may_repeat: bool = False) -> None:
        super().__init__(failure.error_type)
        self.failure = failure
        self.may_repeat = may_repeat


class ToolCallFailed(ToolmendError):  # noqa: N818 - the name says what happened, as in the design of its API
    """A guarded tool call that ended without the tool's value. Its ``__cause__`` is what the tool raised.

    Attributes:
        tool_name: name of the tool.
        error_type: why, one of a closed set: ``timeout``, ``transient``, ``denied``, …
        text_for_model: what the model should be told in place of a result.
        call_id: id of the call, None where nobody named it.
        attempts: how often the tool was run for this call.
        is_outcome_unknown: it may have happened all the same; somebody has to look.
        is_exhausted: the budget of the run for this tool is spent; the run should not go on with it.
        retry_after_seconds: when it is worth trying again, None when nobody knows.
        ticket: of the human who was asked instead, None if none was.
    """

    def __init__(
        self,
        text_for_model: str,
        *,
        tool_name: str,
        error_type: ErrorType,
        call_id: str | None = None,
        attempts: int = 0,
        is_outcome_unknown: bool = False,
        is_exhausted: bool = False,
        retry_after_seconds: float | None = None,
        ticket: str | None = None,
    ) -> None:
        super().__init__(f"{tool_name}: {error_type}")
        self.text_for_model = text_for_model
        self.tool_name = tool_name
        self.error_type = error_type
        self.call_id = call_id
        self.attempts = attempts
        self.is_outcome_unknown = is_outcome_unknown
        self.is_exhausted = is_exhausted
        self.retry_after_seconds = retry_after_seconds
        self.ticket = ticket

    def result(self, format: str) -> object:
        """Return the tool result that tells the model, in a wire format.

        A whole message where results are messages (``openai-chat``, ``openai-responses``,
        ``langchain``); else the block or part to put into the user message (``anthropic``, ``gemini``,
        ``bedrock``).

        Args:
            format: name of the format.

        Raises:
            UnrecognizedHistoryError: there is no such format.
            ValueError: the call has no id, so nothing can answer it (Gemini needs none).
        """
        return answer_part(
            format,
            call_id=self.call_id,
            tool_name=self.tool_name,
            text=self.text_for_model,
            is_error=True,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: value for name, value in vars(self).items() if name != "text_for_model"}
        return partial(type(self), **fields), (self.text_for_model,)
