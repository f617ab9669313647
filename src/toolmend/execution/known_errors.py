"""Known errors: what the exceptions, statuses and codes of well-known clients say about a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from toolmend.telemetry.names import ErrorType


class Rule(NamedTuple):
    """What one class of errors says, where the class alone decides."""

    error_type: ErrorType
    may_have_run: bool = True


NOT_SENT: Final = Rule("transient", may_have_run=False)
AMBIGUOUS: Final = Rule("transient")
ABOUT_THIS: Final = Rule("permanent", may_have_run=False)
MISHAP: Final = Rule("permanent")
"""It fails again, and nobody knows whether the tool had done its work before."""
DENIED: Final = Rule("denied", may_have_run=False)

BY_CLASS: Final[Mapping[str, Rule]] = {
    # The other side was never reached.
    "builtins.ConnectionRefusedError": NOT_SENT,
    "socket.gaierror": NOT_SENT,
    "ssl.SSLCertVerificationError": NOT_SENT,
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
    "aiohttp.ConnectionTimeoutError": NOT_SENT,
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
    "builtins.LookupError": MISHAP,
    "builtins.UnicodeError": MISHAP,
    "pydantic_core.ValidationError": MISHAP,
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

BY_STATUS: Final[Mapping[int, Rule]] = {
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
AWS_RATE: Final = (
    *("Throttl", "TooManyRequests", "LimitExceeded", "SlowDown", "ThroughputExceeded"),
    *("PriorRequestNotComplete", "TransactionInProgress"),
)
AWS_AMBIGUOUS: Final = ("RequestTimeout",)
AWS_UNDONE: Final = ("TransactionConflict",)
AWS_DENIED: Final = (
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
