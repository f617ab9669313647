"""Fallback: what answers in place of a tool that cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolmend.errors import PolicyError
from toolmend.execution.numbers import is_seconds
from toolmend.telemetry.names import ErrorType


class _Unset:
    """Tells no value from the value None."""

    def __repr__(self) -> str:
        return "…"


UNSET: Final = _Unset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """What a human is asked about.

    Attributes:
        tool_name: name of the tool.
        arguments: of the call, by name.
        error_type: why the tool could not do it.
        is_outcome_unknown: it may have happened all the same.
        call_id: id of the call, None where nobody named it.
        run_id: the run, likewise.
        thread: the conversation, likewise.
    """

    tool_name: str
    arguments: Mapping[str, object]
    error_type: ErrorType
    is_outcome_unknown: bool
    call_id: str | None
    run_id: str | None
    thread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What answers in place of a tool that cannot: another tool, then a default value or a human.

    No fallback answers a call whose arguments were wrong, or that was cancelled. Where the outcome is
    unknown only a human is asked: another tool might do it twice.

    Attributes:
        tool: another guarded tool. Its own fallback is not used.
        map_arguments: makes its arguments from those of the call; without it they are the same.
        value: a default value. The model is told that it is one.
        human: asked with an ``Escalation``; returns the id of a ticket. May be async for async tools.
        expires_seconds: how long the human has.
        text_at_expiry: what the model should take as the answer if none came.

    Raises:
        PolicyError: nothing that could answer, or a value that would keep the human from being asked.
    """

    tool: Callable[..., Any] | None = None
    map_arguments: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    value: Any = UNSET
    human: Callable[[Escalation], str | Awaitable[str]] | None = None
    expires_seconds: float = 3600.0
    text_at_expiry: str = "go on without it."

    def __post_init__(self) -> None:
        if self.tool is None and self.human is None and not self.has_value:
            raise PolicyError("Fallback needs one of tool=, value= and human=")
        if self.has_value and self.human is not None:
            raise PolicyError("Fallback takes value= or human=: with a value nobody would be asked")
        if self.map_arguments is not None and self.tool is None:
            raise PolicyError("Fallback(map_arguments=…) needs tool=")
        for name in ("map_arguments", "human"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise PolicyError(f"Fallback({name}=…) is a function; got {type(value).__name__}")
        if not is_seconds(self.expires_seconds):
            raise PolicyError(
                f"Fallback(expires_seconds=…) is a number of seconds above 0; got {self.expires_seconds!r}"
            )

    @property
    def has_value(self) -> bool:
        """Whether there is a default value."""
        return self.value is not UNSET
