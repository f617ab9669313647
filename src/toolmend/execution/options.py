"""Options: how a tool is guarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict, get_args

from toolmend.errors import PolicyError
from toolmend.execution.arguments import PrepareArguments
from toolmend.execution.breaker import Breaker
from toolmend.execution.failures import Failure
from toolmend.execution.fallback import Fallback
from toolmend.execution.retry import Retry
from toolmend.execution.workers import MAX_WORKERS

Effect = Literal["read", "idempotent", "keyed", "non_idempotent"]
Classifier = Callable[[Exception], "Failure | str | None"]
CheckResult = Callable[[Any], object]
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
        limit = self.timeout_seconds
        if limit is not None and (isinstance(limit, bool) or not limit > 0):
            raise PolicyError(f"timeout_seconds is a number above 0, or None; got {limit!r}")
        for name in ("run_budget", "max_workers"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise PolicyError(f"{name} is a whole number from 1 up; got {value!r}")
