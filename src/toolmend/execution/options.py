"""Options: how a tool is guarded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict, get_args

from toolmend.errors import PolicyError
from toolmend.execution.arguments import PrepareArguments
from toolmend.execution.breaker import Breaker
from toolmend.execution.failures import Failure
from toolmend.execution.fallback import Fallback
from toolmend.execution.numbers import is_count, is_seconds
from toolmend.execution.retry import Retry
from toolmend.execution.workers import MAX_WORKERS

Effect = Literal["read", "idempotent", "keyed", "non_idempotent"]
Classifier = Callable[[Exception], "Failure | str | None"]
CheckResult = Callable[[Any], object]
MAX_SECONDS: Final = 366 * 24 * 3600
"""Longer limits are mistakes, and beyond some centuries no platform can wait."""
_CLASSES: Final[Mapping[str, type]] = {"retry": Retry, "breaker": Breaker, "fallback": Fallback}
RETRY_SAFE: Final = frozenset(("read", "idempotent", "keyed"))


class ToolSettings(TypedDict, total=False):
    """What ``tool_call`` and ``Tools.register`` take; the docstring of ``tool_call`` says what each means."""

    name: str | None
    effect: Effect
    timeout_seconds: float | None
    retry: Retry | None
    breaker: Breaker | None
    arguments_schema: Mapping[str, object] | None
    prepare_arguments: PrepareArguments | None
    result_schema: Mapping[str, object] | None
    check_result: CheckResult | None
    strict_result: bool
    fallback: Fallback | None
    classify: Classifier | None
    run_budget: int | None
    max_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """The same, complete and checked."""

    name: str | None = None
    effect: Effect = "non_idempotent"
    timeout_seconds: float | None = None
    retry: Retry | None = Retry()  # noqa: RUF009 - frozen
    breaker: Breaker | None = Breaker()  # noqa: RUF009 - frozen
    arguments_schema: Mapping[str, object] | None = None
    prepare_arguments: PrepareArguments | None = None
    result_schema: Mapping[str, object] | None = None
    check_result: CheckResult | None = None
    strict_result: bool = False
    fallback: Fallback | None = None
    classify: Classifier | None = None
    run_budget: int | None = 3
    max_workers: int = MAX_WORKERS

    def __post_init__(self) -> None:
        if self.effect not in get_args(Effect):
            raise PolicyError(
                f"effect is one of {', '.join(get_args(Effect))}; got {self.effect!r}"
            )
        limit: object = self.timeout_seconds
        if limit is not None and not (is_seconds(limit) and limit <= MAX_SECONDS):
            raise PolicyError(
                f"timeout_seconds is a number above 0 and up to {MAX_SECONDS}, or None; got {limit!r}"
            )
        for name in ("run_budget", "max_workers"):
            value = getattr(self, name)
            if not is_count(value) and (value is not None or name == "max_workers"):
                raise PolicyError(f"{name} is a whole number from 1 up; got {value!r}")
        for name, kind in _CLASSES.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise PolicyError(f"{name} is a {kind.__name__} or None; got {value!r}")
        for name in ("arguments_schema", "result_schema"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise PolicyError(f"{name} is a JSON Schema as a dict; got {type(value).__name__}")
        _check_hooks(self)
        if not isinstance(self.strict_result, bool):
            raise PolicyError(f"strict_result is True or False; got {self.strict_result!r}")
        given: object = self.name
        if given is not None and not (isinstance(given, str) and given.strip()):
            raise PolicyError(f"name is a text that is not empty; got {given!r}")


def _check_hooks(options: ToolOptions) -> None:
    for name in ("prepare_arguments", "check_result", "classify"):
        value = getattr(options, name)
        if value is not None and not callable(value):
            raise PolicyError(f"{name} is a function; got {type(value).__name__}")
        if inspect.iscoroutinefunction(value):
            raise PolicyError(f"{name} is called without waiting; it takes no async function")
