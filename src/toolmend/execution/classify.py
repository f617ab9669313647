"""Classify: what an exception of a tool says about the call, by the exception's own class and fields.

Classes are known by name, so that nothing is imported that the application does not import. Whoever
knows better gives ``classify=`` to the tool.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolmend.execution.failures import Failure, ToolCallFailed
from toolmend.execution.known_errors import (
    ABOUT_THIS,
    AMBIGUOUS,
    AWS_AMBIGUOUS,
    AWS_DENIED,
    AWS_RATE,
    AWS_UNDONE,
    BY_CLASS,
    BY_STATUS,
    CONTROL_FLOW,
    DENIED,
    NOT_SENT,
    Rule,
)
from toolmend.execution.retry_after import as_datetime, retry_after_seconds
from toolmend.execution.texts import message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_MAX_CAUSES: Final = 8


_FIRST_CLIENT_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY_REQUESTS: Final = 429


def classify(error: Exception) -> Failure:
    """Return what an exception of a tool says; an unknown one may have happened, and may pass.

    Args:
        error: what the tool raised.
    """
    try:
        if isinstance(error, ToolCallFailed):
            # Wrong arguments of a tool inside are no fault of what the model asked for.
            is_own = error.error_type != "invalid_arguments"
            return Failure(
                error_type=error.error_type if is_own else "permanent",
                may_have_run=error.is_outcome_unknown,
                retry_after_seconds=error.retry_after_seconds,
                message=error.text_for_model,
                exception=error,
            )
        for at in _with_causes(error):
            found = _by_status(at, error) or _by_name(at, error)
            if found is not None:
                is_unsure = not found.may_have_run and _may_have_acted_before(error)
                return replace(found, may_have_run=True) if is_unsure else found
    except Exception:  # noqa: BLE001, S110 - the exception is the tool's own, and may do anything
        pass
    return _failure(AMBIGUOUS, error)


def _may_have_acted_before(error: BaseException) -> bool:
    """Tell whether an error came up while another one was handled, behind which something may have happened."""
    before = error.__context__
    if before is None or error.__cause__ is not None or error.__suppress_context__:
        return False
    return any(BY_CLASS.get(name) is AMBIGUOUS for name in _names(before))


def is_control_flow(error: BaseException) -> bool:
    """Tell whether an exception steers a framework."""
    return any(name in CONTROL_FLOW for name in _names(error)) or _is_invalid_resume(error)


def _is_invalid_resume(error: BaseException) -> bool:
    """Tell whether LangGraph refused the answer to an interrupt, so that it can be answered again."""
    langgraph = sys.modules.get("langgraph.errors")
    told: Callable[[BaseException], bool] | None = getattr(langgraph, "is_invalid_resume", None)
    return told is not None and told(error)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what is inside a wrapper first: a connection error says less than the refusal behind it."""
    chain: list[BaseException] = [error]
    while len(chain) < _MAX_CAUSES:
        inner = _cause(chain[-1])
        if inner is None or any(inner is at for at in chain):
            break
        chain.append(inner)
    for at in reversed(chain[1:]):
        if any(BY_CLASS.get(name) is NOT_SENT for name in _names(at)):
            yield at
    yield from chain


def _cause(error: BaseException) -> BaseException | None:
    """Return what an error was made of: its cause, or a reason that it carries."""
    if error.__cause__ is not None:
        return error.__cause__
    alone = _alone(error)
    if alone is not None:
        return alone
    for carrier in (error, *error.args[:1]):
        reason = _of(carrier, "reason")
        if isinstance(reason, BaseException):
            return reason
    first = error.args[0] if error.args else None
    return first if isinstance(first, BaseException) else None


def _alone(error: BaseException) -> BaseException | None:
    """Return the only exception of a group."""
    together = _of(error, "exceptions")
    if isinstance(together, tuple) and len(together) == 1 and isinstance(together[0], Exception):
        return together[0]
    return None


def _names(error: BaseException) -> Iterator[str]:
    for kind in type(error).__mro__:
        yield f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _by_name(error: BaseException, outer: Exception) -> Failure | None:
    for name in _names(error):
        if name in ("sqlalchemy.OperationalError", "sqlite3.OperationalError"):
            return _failure(NOT_SENT if _is_locked(error) else AMBIGUOUS, outer)
        rule = BY_CLASS.get(name)
        if rule is not None:
            return _failure(rule, outer)
    return None


def _is_locked(error: BaseException) -> bool:
    """Tell whether SQLite says that somebody else writes: then nothing was written."""
    return "locked" in message_of(_of(error, "orig") or error)


def _by_status(error: BaseException, outer: Exception) -> Failure | None:
    """Read the HTTP status that an error of a client carries."""
    response = _of(error, "response")
    if isinstance(response, Mapping):  # botocore
        return _by_aws(response, outer)
    status = _first_status(
        _of(error, "status_code"),
        _of(response, "status_code"),
        _of(error, "status"),
        _of(error, "code"),
    )
    if status is None:
        return None
    if _of(error, "code") == "insufficient_quota":  # a 429 that waiting does not cure
        return _failure(DENIED, outer)
    headers = _of(response, "headers") or _of(error, "headers")
    return _failure(rule_of_status(status), outer, _asked(headers))


def _of(thing: object, name: str) -> Any:
    """Return what an error carries under a name; None where it carries nothing, or looking fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property may do anything
        return None


def _first_status(*candidates: object) -> int | None:
    for status in candidates:
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:  # noqa: PLR2004 - HTTP errors
            return status
    return None


def rule_of_status(status: int) -> Rule:
    """Return what an HTTP status of 400 and above says."""
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    return ABOUT_THIS if status < _FIRST_SERVER_ERROR else AMBIGUOUS


def _by_aws(response: Mapping[str, Any], outer: Exception) -> Failure | None:
    error = response.get("Error")
    code = error.get("Code") if isinstance(error, Mapping) else None
    metadata = response.get("ResponseMetadata")
    if not isinstance(metadata, Mapping):
        metadata = {}
    asked = _asked(metadata.get("HTTPHeaders"))
    if isinstance(code, str):
        if any(mark in code for mark in AWS_RATE):
            return _failure(BY_STATUS[_TOO_MANY_REQUESTS], outer, asked)
        if any(mark in code for mark in AWS_DENIED):
            return _failure(DENIED, outer)
        if code.startswith(AWS_AMBIGUOUS):
            return _failure(AMBIGUOUS, outer, asked)
        if code.startswith(AWS_UNDONE):
            return _failure(NOT_SENT, outer, asked)
    status = _first_status(metadata.get("HTTPStatusCode"))
    return None if status is None else _failure(rule_of_status(status), outer, asked)


def _asked(headers: Any) -> float | None:
    get: Callable[[str], object] | None = _of(headers, "get")
    if get is None:
        return None
    try:
        value = get("retry-after") or get("Retry-After")
        return retry_after_seconds(value, as_datetime(get("date") or get("Date")))
    except Exception:  # noqa: BLE001 - headers of any client
        return None


def _failure(rule: Rule, error: Exception, retry_after: float | None = None) -> Failure:
    return Failure(
        error_type=rule.error_type,
        may_have_run=rule.may_have_run,
        retry_after_seconds=retry_after,
        message=message_of(_of(error, "orig") or _alone(error) or error)
        if rule.error_type in ("permanent", "invalid_arguments")
        else "",
        exception=error,
    )
