"""Classify: what an exception of a tool says about the call, by the exception's own class and fields.

Classes are known by name, so that nothing is imported that the application does not import. Whoever
knows better gives ``classify=`` to the tool.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toolmend.execution.failures import Failure, ToolCallFailed
from toolmend.execution.retry_after import as_datetime, retry_after_seconds
from toolmend.execution.texts import message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolmend.execution.error_types import ErrorType

_MAX_CAUSES: Final = 8


class Rule(NamedTuple):
    """What one class of errors says, where the class alone decides."""

    error_type: ErrorType
    may_have_run: bool = True


NOT_SENT: Final = Rule("transient", may_have_run=False)
AMBIGUOUS: Final = Rule("transient")
ABOUT_THIS: Final = Rule("permanent")
DENIED: Final = Rule("denied", may_have_run=False)

BY_CLASS: Final[Mapping[str, Rule]] = {
    # The other side was never reached.
    "builtins.ConnectionRefusedError": NOT_SENT,
    "socket.gaierror": NOT_SENT,
    "httpx.ConnectError": NOT_SENT,
    "httpx.ConnectTimeout": NOT_SENT,
    "httpx.PoolTimeout": NOT_SENT,
    "httpx2.ConnectError": NOT_SENT,
    "httpx2.ConnectTimeout": NOT_SENT,
    "httpx2.PoolTimeout": NOT_SENT,
    "requests.ConnectTimeout": NOT_SENT,
    "urllib3.NewConnectionError": NOT_SENT,
    "urllib3.ConnectTimeoutError": NOT_SENT,
    "aiohttp.ClientConnectorError": NOT_SENT,
    "botocore.ConnectTimeoutError": NOT_SENT,
    "botocore.EndpointConnectionError": NOT_SENT,
    "sqlalchemy.TimeoutError": NOT_SENT,  # no connection became free in the pool
    "psycopg_pool.PoolTimeout": NOT_SENT,
    # The database undid it.
    "psycopg.SerializationFailure": NOT_SENT,
    "psycopg.DeadlockDetected": NOT_SENT,
    # It may have happened.
    "builtins.TimeoutError": AMBIGUOUS,
    "builtins.ConnectionError": AMBIGUOUS,
    "asyncio.TimeoutError": AMBIGUOUS,
    "asyncio.CancelledError": AMBIGUOUS,
    "concurrent.CancelledError": AMBIGUOUS,
    "concurrent.TimeoutError": AMBIGUOUS,
    "httpx.TransportError": AMBIGUOUS,
    "httpx2.TransportError": AMBIGUOUS,
    "requests.ConnectionError": AMBIGUOUS,
    "requests.Timeout": AMBIGUOUS,
    "requests.ChunkedEncodingError": AMBIGUOUS,
    "urllib3.HTTPError": AMBIGUOUS,
    "urllib.URLError": AMBIGUOUS,
    "http.HTTPException": AMBIGUOUS,
    "aiohttp.ClientError": AMBIGUOUS,
    "openai.APIConnectionError": AMBIGUOUS,
    "anthropic.APIConnectionError": AMBIGUOUS,
    "botocore.HTTPClientError": AMBIGUOUS,
    "sqlalchemy.OperationalError": AMBIGUOUS,
    "sqlalchemy.InterfaceError": AMBIGUOUS,
    "psycopg.OperationalError": AMBIGUOUS,
    "psycopg2.OperationalError": AMBIGUOUS,
    "json.JSONDecodeError": AMBIGUOUS,  # an answer that is none
    # It is about this argument: the same call fails again.
    "builtins.ValueError": ABOUT_THIS,
    "builtins.LookupError": ABOUT_THIS,
    "builtins.FileNotFoundError": ABOUT_THIS,
    "builtins.FileExistsError": ABOUT_THIS,
    "builtins.IsADirectoryError": ABOUT_THIS,
    "builtins.NotADirectoryError": ABOUT_THIS,
    "builtins.PermissionError": ABOUT_THIS,
    "httpx.UnsupportedProtocol": ABOUT_THIS,
    "httpx.LocalProtocolError": ABOUT_THIS,
    "httpx.InvalidURL": ABOUT_THIS,
    "httpx.TooManyRedirects": ABOUT_THIS,
    "httpx2.UnsupportedProtocol": ABOUT_THIS,
    "httpx2.LocalProtocolError": ABOUT_THIS,
    "httpx2.InvalidURL": ABOUT_THIS,
    "httpx2.TooManyRedirects": ABOUT_THIS,
    "requests.InvalidURL": ABOUT_THIS,
    "requests.MissingSchema": ABOUT_THIS,
    "requests.InvalidSchema": ABOUT_THIS,
    "requests.TooManyRedirects": ABOUT_THIS,
    "aiohttp.InvalidURL": ABOUT_THIS,
    "botocore.ParamValidationError": ABOUT_THIS,
    "sqlalchemy.DataError": ABOUT_THIS,
    "sqlalchemy.IntegrityError": ABOUT_THIS,
    "sqlalchemy.ProgrammingError": ABOUT_THIS,
    "sqlalchemy.NoResultFound": ABOUT_THIS,
    "sqlalchemy.MultipleResultsFound": ABOUT_THIS,
    "sqlite3.IntegrityError": ABOUT_THIS,
    "psycopg.DataError": ABOUT_THIS,
    "psycopg.IntegrityError": ABOUT_THIS,
    "psycopg.ProgrammingError": ABOUT_THIS,
    "langgraph.ToolInvocationError": Rule("invalid_arguments", may_have_run=False),
    "langchain_core.ToolException": ABOUT_THIS,
    "pydantic_ai.ModelRetry": ABOUT_THIS,
    # Nobody gets through.
    "botocore.NoCredentialsError": DENIED,
    "botocore.PartialCredentialsError": DENIED,
}
"""First part of the module and name of the class; the class itself and then its bases are looked up."""

_STATUS_RULES: Final[Mapping[int, Rule]] = {
    401: DENIED,
    402: DENIED,
    403: DENIED,
    405: Rule("gone", may_have_run=False),
    407: DENIED,
    408: AMBIGUOUS,
    410: ABOUT_THIS,
    425: NOT_SENT,
    423: NOT_SENT,
    429: Rule("rate_limited", may_have_run=False),
    501: Rule("gone", may_have_run=False),
}
_FIRST_CLIENT_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY_REQUESTS: Final = 429

_AWS_RATE: Final = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "SlowDown")
_AWS_DENIED: Final = (
    *("AccessDenied", "UnrecognizedClient", "ExpiredToken", "InvalidClientTokenId"),
    *("SignatureDoesNotMatch", "UnauthorizedOperation", "OptInRequired"),
)

CONTROL_FLOW: Final = frozenset(
    (
        "langgraph.GraphBubbleUp",
        "pydantic_ai.CallDeferred",
        "pydantic_ai.ApprovalRequired",
    )
)
"""By which frameworks steer: no errors of a tool, and never swallowed."""


def classify(error: Exception) -> Failure:
    """Return what an exception of a tool says; an unknown one may have happened, and may pass.

    Args:
        error: what the tool raised.
    """
    if isinstance(error, ToolCallFailed):
        return Failure(
            error_type=error.error_type,
            may_have_run=error.is_outcome_unknown,
            retry_after_seconds=error.retry_after_seconds,
            message=error.text_for_model,
            exception=error,
        )
    for at in _with_causes(error):
        found = _by_status(at, error) or _by_name(at, error)
        if found is not None:
            return found
    return _failure(AMBIGUOUS, error)


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
        if inner is None or inner in chain:
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
    for carrier in (error, *error.args[:1]):
        reason = getattr(carrier, "reason", None)
        if isinstance(reason, BaseException):
            return reason
    first = error.args[0] if error.args else None
    return first if isinstance(first, BaseException) else None


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
    return "locked" in message_of(getattr(error, "orig", None) or error)


def _by_status(error: BaseException, outer: Exception) -> Failure | None:
    """Read the HTTP status that an error of a client carries."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        return _by_aws(response, outer)
    status = _first_status(
        getattr(error, "status_code", None),
        getattr(response, "status_code", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
    )
    if status is None:
        return None
    if getattr(error, "code", None) == "insufficient_quota":  # a 429 that waiting does not cure
        return _failure(DENIED, outer)
    headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    return _failure(rule_of_status(status), outer, _asked(headers))


def _first_status(*candidates: object) -> int | None:
    for status in candidates:
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:  # noqa: PLR2004 - HTTP errors
            return status
    return None


def rule_of_status(status: int) -> Rule:
    """Return what an HTTP status of 400 and above says."""
    known = _STATUS_RULES.get(status)
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
        if any(mark in code for mark in _AWS_RATE):
            return _failure(_STATUS_RULES[_TOO_MANY_REQUESTS], outer, asked)
        if any(mark in code for mark in _AWS_DENIED):
            return _failure(DENIED, outer)
    status = _first_status(metadata.get("HTTPStatusCode"))
    return None if status is None else _failure(rule_of_status(status), outer, asked)


def _asked(headers: Any) -> float | None:
    get: Callable[[str], object] | None = getattr(headers, "get", None)
    if get is None:
        return None
    value = get("retry-after") or get("Retry-After")
    return retry_after_seconds(value, as_datetime(get("date") or get("Date")))


def _failure(rule: Rule, error: Exception, retry_after: float | None = None) -> Failure:
    return Failure(
        error_type=rule.error_type,
        may_have_run=rule.may_have_run,
        retry_after_seconds=retry_after,
        message=message_of(getattr(error, "orig", None) or error)
        if rule.error_type in ("permanent", "invalid_arguments")
        else "",
        exception=error,
    )
