"""What an exception of a tool says: real ones of the clients that are installed, look-alikes of the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import socket
import sqlite3
import ssl
import subprocess
import sys
import textwrap
import urllib.error
from datetime import datetime, timedelta, timezone
from email.message import Message
from email.utils import format_datetime

import botocore.exceptions
import httpx
import openai
import pytest
import requests
import urllib3.exceptions
from pydantic import BaseModel, ValidationError

from toolmend import Failure, ToolCallFailed, tool_call
from toolmend.errors import PolicyError
from toolmend.execution.classify import classify, is_control_flow
from toolmend.execution.retry_after import as_datetime, retry_after_seconds
from toolmend.execution.texts import text_for

REQUEST = httpx.Request("GET", "http://tool.test")


def look_alike(module: str, name: str, *bases: type) -> type[Exception]:
    return type(name, bases or (Exception,), {"__module__": module})


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def response(status: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=REQUEST)


def by_httpx(status: int, **headers: str) -> Exception:
    return httpx.HTTPStatusError("told", request=REQUEST, response=response(status, **headers))


def by_requests(status: int, **headers: str) -> Exception:
    made = requests.Response()
    made.status_code = status
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return requests.HTTPError("told", response=made)


def by_urllib(status: int, **headers: str) -> Exception:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://tool.test", status, "told", message, None)


def by_openai(status: int, **headers: str) -> Exception:
    return openai.APIStatusError("told", response=response(status, **headers), body=None)


def by_attribute(status: int, **headers: str) -> Exception:
    error = look_alike("anyclient.errors", "ApiError")("told")
    error.status = status
    error.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return error


def by_botocore(status: int, code: str = "Odd", **headers: str) -> Exception:
    return botocore.exceptions.ClientError(
        {
            "Error": {"Code": code, "Message": "told"},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "HTTPHeaders": {name.replace("_", "-"): value for name, value in headers.items()},
            },
        },
        "Operation",
    )


CLIENTS = [by_httpx, by_requests, by_urllib, by_openai, by_attribute, by_botocore]
STATUSES = {
    **dict.fromkeys((400, 404, 409, 410, 413, 418, 422, 451), ("permanent", False)),
    **dict.fromkeys((401, 402, 403, 407), ("denied", False)),
    **dict.fromkeys((405, 501), ("gone", False)),
    **dict.fromkeys((408, 500, 502, 503, 504, 505, 507, 529, 599), ("transient", True)),
    **dict.fromkeys((423, 425), ("transient", False)),
    429: ("rate_limited", False),
}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
@pytest.mark.parametrize(("status", "said"), STATUSES.items(), ids=str)
def test_statuses(client, status, said):
    failure = classify(client(status))
    assert (failure.error_type, failure.may_have_run) == said
    assert bool(failure.message) == (failure.error_type == "permanent")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "0"}, 0),
        ({"retry_after": "5"}, 5),
        ({"retry_after": " 5 "}, 5),
        ({"retry_after": "1e9"}, 1e9),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "abc"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": ""}, None),
        ({}, None),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        (
            {
                "retry_after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30,
        ),
        (
            {
                "retry_after": "Wed, 21 Oct 2015 07:28:00 GMT",
                "date": "Wed, 21 Oct 2015 07:28:30 GMT",
            },
            0,
        ),
        ({"retry_after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"retry_after": "5", "date": "nonsense"}, 5),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_retry_after(client, status, headers, seconds):
    failure = classify(client(status, **headers))
    assert failure.retry_after_seconds == seconds
    assert failure.error_type == STATUSES[status if status == 429 else 503][0]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (2.5, 2.5),
        (b"7", 7.0),
        (True, None),
        (None, None),
        (-1, None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        (float("inf"), None),
        (10**5000, None),
        ("9" * 200, None),
        ([], None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        ("21 Oct 2015", None),
    ],
    ids=lambda value: repr(value)[:20] if value != 10**5000 else "endless",
)
def test_retry_after_values(value, seconds):
    assert retry_after_seconds(value) == seconds


def test_a_date_without_a_date_header_is_compared_with_the_own_clock():
    in_an_hour = format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True)
    assert retry_after_seconds(in_an_hour) == pytest.approx(3600, abs=600)
    assert retry_after_seconds(in_an_hour, as_datetime(in_an_hour)) == 0
    assert as_datetime("Wed, 21 Oct 2015 07:28:00") == datetime(
        2015, 10, 21, 7, 28, tzinfo=timezone.utc
    )
    assert as_datetime(5) is None


SA = "sqlalchemy.exc"
SA_ERROR = look_alike(SA, "SQLAlchemyError")
SA_DB = look_alike(SA, "DBAPIError", SA_ERROR)
SA_OPERATIONAL = look_alike(SA, "OperationalError", SA_DB)
PG = "psycopg.errors"
PG_OPERATIONAL = look_alike("psycopg", "OperationalError")
AIO = look_alike("aiohttp.client_exceptions", "ClientError")


def with_orig(error: Exception, orig: BaseException) -> Exception:
    error.orig = orig
    return error


def not_a_model() -> Exception:
    class Model(BaseModel):
        a: int

    with pytest.raises(ValidationError) as told:
        Model(a="x")
    return told.value


NOT_SENT = [
    ConnectionRefusedError(),
    socket.gaierror(-2, "no such host"),
    ssl.SSLCertVerificationError("nobody knows it"),
    httpx.ConnectError("x"),
    httpx.ConnectTimeout("x"),
    httpx.PoolTimeout("x"),
    requests.ConnectTimeout("x"),
    urllib3.exceptions.NewConnectionError(None, "x"),
    urllib3.exceptions.ConnectTimeoutError("x"),
    botocore.exceptions.ConnectTimeoutError(endpoint_url="u", error="e"),
    botocore.exceptions.EndpointConnectionError(endpoint_url="u", error="e"),
    urllib.error.URLError(socket.gaierror(-2, "no such host")),
    urllib.error.URLError(ConnectionRefusedError()),
    requests.ConnectionError(urllib3.exceptions.MaxRetryError(None, "u", ConnectionRefusedError())),
    caused(openai.APIConnectionError(request=REQUEST), httpx.ConnectError("x")),
    caused(RuntimeError("wrapped"), ConnectionRefusedError()),
    caused(RuntimeError("wrapped"), caused(ValueError("twice"), ConnectionRefusedError())),
    caused(requests.exceptions.SSLError("x"), ssl.SSLCertVerificationError("x")),
    RuntimeError(ConnectionRefusedError()),
    look_alike(
        "aiohttp.client_exceptions",
        "ClientConnectorDNSError",
        look_alike("aiohttp.client_exceptions", "ClientConnectorError", AIO),
    )(),
    look_alike("aiohttp.client_exceptions", "ConnectionTimeoutError", AIO, TimeoutError)(),
    look_alike(SA, "TimeoutError", SA_ERROR)("QueuePool limit"),
    look_alike("psycopg_pool", "PoolTimeout", PG_OPERATIONAL)(),
    look_alike(PG, "SerializationFailure", PG_OPERATIONAL)(),
    look_alike(PG, "DeadlockDetected", PG_OPERATIONAL)(),
    caused(SA_OPERATIONAL("x"), look_alike(PG, "DeadlockDetected", PG_OPERATIONAL)()),
    sqlite3.OperationalError("database is locked"),
    with_orig(SA_OPERATIONAL("x"), sqlite3.OperationalError("database table is locked")),
    by_botocore(400, "TransactionConflictException"),
]
AMBIGUOUS = [
    Exception("x"),
    RuntimeError("x"),
    TypeError("x"),
    ZeroDivisionError(),
    NotImplementedError(),
    MemoryError(),
    RecursionError(),
    StopIteration(),
    EOFError(),
    OSError(28, "no space left"),
    TimeoutError("of the tool's own"),
    asyncio.TimeoutError(),
    concurrent.futures.TimeoutError(),
    concurrent.futures.CancelledError(),
    ConnectionResetError(),
    BrokenPipeError(),
    ssl.SSLError("x"),
    httpx.ReadTimeout("x"),
    httpx.WriteTimeout("x"),
    httpx.ReadError("x"),
    httpx.RemoteProtocolError("x"),
    httpx.ProxyError("x"),
    requests.ReadTimeout("x"),
    requests.ConnectionError("x"),
    requests.exceptions.SSLError("x"),
    requests.exceptions.ChunkedEncodingError("x"),
    requests.JSONDecodeError("x", "", 0),
    urllib3.exceptions.ReadTimeoutError(None, "u", "x"),
    urllib3.exceptions.ProtocolError("x"),
    urllib.error.URLError("x"),
    urllib.error.URLError(TimeoutError()),
    http.client.RemoteDisconnected("x"),
    http.client.IncompleteRead(b""),
    openai.APIConnectionError(request=REQUEST),
    openai.APITimeoutError(request=REQUEST),
    botocore.exceptions.ReadTimeoutError(endpoint_url="u", error="e"),
    botocore.exceptions.ConnectionClosedError(endpoint_url="u", error="e"),
    botocore.exceptions.ClientError({}, "Operation"),
    by_botocore(400, "RequestTimeout"),
    json.JSONDecodeError("x", "", 0),
    SA_OPERATIONAL("x"),
    SA_DB("x"),
    sqlite3.OperationalError("disk I/O error"),
    look_alike("aiohttp.client_exceptions", "ServerDisconnectedError", AIO)(),
    look_alike("subprocess_of_mine", "CalledProcessError")(),
]
MISHAPS = [  # the same call fails again, and nobody knows what it did before
    KeyError("x"),
    IndexError("x"),
    UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
    not_a_model(),
]
ABOUT_THIS = [
    ValueError("x"),
    FileNotFoundError("x"),
    PermissionError("x"),
    httpx.UnsupportedProtocol("x"),
    httpx.InvalidURL("x"),
    httpx.TooManyRedirects("x"),
    requests.exceptions.MissingSchema("x"),
    requests.exceptions.InvalidURL("x"),
    requests.TooManyRedirects("x"),
    botocore.exceptions.ParamValidationError(report="x"),
    sqlite3.IntegrityError("x"),
    look_alike(SA, "IntegrityError", SA_DB)("x"),
    look_alike(SA, "NoResultFound", SA_ERROR)("x"),
    look_alike(PG, "UniqueViolation", look_alike("psycopg", "IntegrityError"))("x"),
    look_alike("langchain_core.tools.base", "ToolException")("x"),
    by_botocore(400, "ValidationException"),
    by_botocore(404, "NoSuchKey"),
    by_botocore(400, "ConditionalCheckFailedException"),
]
DENIED = [
    botocore.exceptions.NoCredentialsError(),
    *(
        by_botocore(400, code)
        for code in (
            "AccessDeniedException",
            "ExpiredTokenException",
            "UnrecognizedClientException",
        )
    ),
    openai.RateLimitError("x", response=response(429), body={"code": "insufficient_quota"}),
    caused(RuntimeError("wrapped"), by_httpx(401)),
]
LIMITED = [
    by_botocore(400, code)
    for code in (
        *("ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"),
        *("SlowDown", "TooManyRequestsException", "TransactionInProgressException"),
    )
]


@pytest.mark.parametrize(
    ("error", "said", "may_have_run"),
    [
        *((error, "transient", False) for error in NOT_SENT),
        *((error, "transient", True) for error in AMBIGUOUS),
        *((error, "permanent", False) for error in ABOUT_THIS),
        *((error, "permanent", True) for error in MISHAPS),
        *((error, "denied", False) for error in DENIED),
        *((error, "rate_limited", False) for error in LIMITED),
    ],
    ids=lambda value: (
        f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}-{str(value)[:40]}"
        if isinstance(value, BaseException)
        else ""
    ),
)
def test_classes(error, said, may_have_run):
    failure = classify(error)
    assert (failure.error_type, failure.may_have_run) == (said, may_have_run)
    assert failure.exception is error
    assert bool(failure.message) == (said == "permanent")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of exceptions came with 3.11")
@pytest.mark.parametrize(
    ("inside", "said", "may_have_run", "message"),
    [
        ([ConnectionRefusedError()], "transient", False, ""),
        ([ValueError("no such city")], "permanent", False, "no such city"),
        ([by_httpx(401)], "denied", False, ""),
        ([ValueError("x"), ConnectionRefusedError()], "transient", True, ""),
    ],
    ids=["refused", "value", "denied", "two"],
)
def test_groups(inside, said, may_have_run, message):
    failure = classify(ExceptionGroup("told", inside))  # noqa: F821 - see above
    assert (failure.error_type, failure.may_have_run, failure.message) == (
        said,
        may_have_run,
        message,
    )


def test_what_was_handled_before_is_no_cause():
    error = RuntimeError("x")
    error.__context__ = ConnectionRefusedError()
    assert classify(error).may_have_run


def test_a_circle_of_causes_ends():
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).error_type == "transient"


def boom(*_: object) -> object:
    raise RuntimeError("boom")


class SaysNo(Exception):
    __eq__ = boom
    __hash__ = None
    __bool__ = boom


class NoHeaders:
    get = boom


def odd(**members: object) -> Exception:
    return type("Odd", (Exception,), members)("x")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        *(
            pytest.param(odd(**{name: property(boom)}), "transient", id=f"property-{name}")
            for name in (
                *("response", "status_code", "status", "code", "headers", "reason", "orig"),
                *("args", "__cause__", "exceptions"),
            )
        ),
        pytest.param(odd(status_code=429, headers=NoHeaders()), "rate_limited", id="headers"),
        pytest.param(
            odd(status_code=429, headers={"retry-after": 10**5000}),
            "rate_limited",
            id="endless-header",
        ),
        pytest.param(odd(status_code=429, headers=5), "rate_limited", id="headers-are-none"),
        pytest.param(
            odd(status_code=429, response=object()), "rate_limited", id="response-is-none"
        ),
        pytest.param(odd(status_code="429"), "transient", id="status-is-text"),
        pytest.param(odd(status_code=True), "transient", id="status-is-true"),
        pytest.param(odd(status_code=200), "transient", id="status-is-good"),
        pytest.param(
            odd(response={"Error": 5, "ResponseMetadata": 5}), "transient", id="response-like-aws"
        ),
        pytest.param(caused(SaysNo(), SaysNo()), "transient", id="compares-badly"),
        pytest.param(caused(SaysNo(), by_httpx(401)), "denied", id="compares-badly-with-a-cause"),
        pytest.param(type("V", (ValueError,), {"__str__": boom})(), "permanent", id="str-raises"),
        pytest.param(
            type("V", (ValueError,), {"__str__": lambda _: 5})(), "permanent", id="str-is-none"
        ),
    ],
)
def test_exceptions_that_do_anything(error, said):
    assert classify(error).error_type == said


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such city"), "no such city"),
        (ValueError("  "), "ValueError"),
        (ValueError(), "ValueError"),
        (type("Odd", (ValueError,), {"__str__": boom})(), "Odd"),
        (ValueError("half \ud800"), "half ?"),
        (ValueError("x" * 10_000_000), "x" * 999 + "…"),
        (
            with_orig(
                look_alike(SA, "DataError", SA_DB)("[SQL: SELECT secret]"), ValueError("too long")
            ),
            "too long",
        ),
    ],
    ids=["text", "blank", "empty", "raises", "surrogate", "long", "statement"],
)
def test_messages_can_be_sent(error, message):
    failure = classify(error)
    assert failure.message == message
    text_for(failure, tool="t", attempts=1, is_outcome_unknown=False).encode()


def test_what_is_raised_reaches_the_model_as_something_that_can_be_sent():
    @tool_call
    def look() -> None:
        raise ValueError("half \ud800")

    with pytest.raises(ToolCallFailed) as told:
        look()
    assert told.value.text_for_model == "half ?"


def test_a_guarded_tool_inside_speaks_for_itself():
    inner = ToolCallFailed(
        "do not repeat", tool_name="inner", error_type="outcome_unknown", is_outcome_unknown=True
    )
    failure = classify(inner)
    assert (failure.error_type, failure.may_have_run) == ("outcome_unknown", True)
    assert failure.message == "do not repeat"


def test_a_guarded_tool_inside_that_was_made_up():
    inner = ToolCallFailed("x", tool_name="inner", error_type="nonsense", retry_after_seconds=-1)
    assert classify(inner).error_type == "transient"


@pytest.mark.parametrize(
    "error",
    [
        look_alike(
            "langgraph.errors", "GraphInterrupt", look_alike("langgraph.errors", "GraphBubbleUp")
        )(),
        look_alike("pydantic_ai.exceptions", "ApprovalRequired")(),
        look_alike("pydantic_ai.exceptions", "CallDeferred")(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_control_flow(error):
    assert is_control_flow(error)
    assert not is_control_flow(ValueError())


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"error_type": "nonsense"}, "error_type"),
        ({"error_type": None}, "error_type"),
        ({"error_type": "transient", "retry_after_seconds": -1}, "retry_after_seconds"),
        ({"error_type": "transient", "retry_after_seconds": float("inf")}, "retry_after_seconds"),
        ({"error_type": "transient", "retry_after_seconds": float("nan")}, "retry_after_seconds"),
        ({"error_type": "transient", "retry_after_seconds": "5"}, "retry_after_seconds"),
    ],
    ids=str,
)
def test_failures_that_there_are_not(fields, told):
    with pytest.raises(PolicyError) as error:
        Failure(**fields)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "own",
    [
        lambda _: "nonsense",
        lambda _: Failure(error_type="nonsense"),
        lambda _: Failure(error_type="transient", retry_after_seconds=float("nan")),
        lambda _: 1 / 0,
        lambda _: None,
        lambda _: 5,
    ],
    ids=["text", "failure", "wait", "raises", "none", "number"],
)
def test_an_own_classifier_that_is_wrong_leaves_it_to_ours(own):
    @tool_call(classify=own)
    def look() -> None:
        raise ValueError("no such city")

    with pytest.raises(ToolCallFailed) as told:
        look()
    assert (told.value.error_type, told.value.text_for_model) == ("permanent", "no such city")


def test_nothing_is_imported_that_the_application_does_not_import():
    code = """
        import sys
        from toolmend.execution.classify import classify, is_control_flow
        before = set(sys.modules)
        for module, name in [
            ("httpx", "ReadTimeout"), ("requests.exceptions", "Timeout"), ("openai", "APIError"),
            ("botocore.exceptions", "ClientError"), ("sqlalchemy.exc", "OperationalError"),
            ("aiohttp", "ClientError"), ("psycopg", "OperationalError"), ("anyone.else", "Error"),
        ]:
            error = type(name, (Exception,), {"__module__": module, "status_code": 429})("x")
            classify(error)
            is_control_flow(error)
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        clients = {"httpx", "requests", "openai", "botocore", "sqlalchemy", "aiohttp", "psycopg", "urllib3"}
        print(sorted(new), sorted(clients & set(sys.modules)))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[] []"
