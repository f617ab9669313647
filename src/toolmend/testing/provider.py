"""A provider that refuses illegal histories exactly as the real ones do."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from typing_extensions import Self

from toolmend.testing.chat_endpoint import Flavour
from toolmend.testing.endpoint import Endpoint, Refusal
from toolmend.testing.exchange import Request, Response
from toolmend.testing.numbering import Numbering
from toolmend.testing.replies import JsonObject, Reply, ReplyFunction, short_reply
from toolmend.testing.routes import Routes
from toolmend.testing.strict import Host

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from toolmend.testing.http_server import LocalServer
    from toolmend.testing.strict import Problem, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRequest:
    """One request as the provider saw it, and what it answered.

    Attributes:
        path: Path without the query, such as `/v1/messages`.
        headers: Headers, their names in lower case.
        body: The JSON body; an empty dict when there was none to read.
        status: HTTP status of the answer.
        response: JSON body of the answer; for a stream the answer that its events add up to.
        problems: Why the history was refused; empty when it was not.
    """

    path: str
    headers: Mapping[str, str]
    body: JsonObject
    status: int
    response: JsonObject
    problems: tuple[Problem, ...] = ()


class StrictProvider:
    """Serves the APIs of OpenAI, Anthropic, Gemini and Bedrock on 127.0.0.1 in a `with`.

    These are OpenAI Chat Completions and Responses, Anthropic Messages, Gemini generateContent and
    Bedrock Converse. Responses goes on from its own answers with `previous_response_id`.
    An illegal history gets a 400 with the body of the real provider; so does a request with a
    plain fault, such as a missing model. Answers may be streamed. Ids are numbered, nothing is
    printed, and no key is checked.

        with StrictProvider() as provider:
            client = OpenAI(base_url=provider.openai_base_url, api_key="test")

    Args:
        reply: Makes the reply to a legal request from its body and path; None answers `ok`. It is
            called from the thread of the connection. If it fails, the answer is a 500 that says so.
        flavour: `compatible` answers a dangling call of Chat Completions as OpenAI-compatible
            hosts spell it (agno-agi/agno#1784).
        profile: A host with rules of its own, as for `problems`. `mistral` also answers in the
            words of Mistral.

    Raises:
        ValueError: The flavour or the profile is unknown.
    """

    def __init__(
        self,
        reply: ReplyFunction | None = None,
        *,
        flavour: Flavour = "openai",
        profile: Profile | None = None,
    ) -> None:
        if flavour not in get_args(Flavour):
            raise ValueError(f"flavour is 'openai' or 'compatible', not {flavour!r}")
        self._reply = short_reply if reply is None else reply
        self._routes = Routes(flavour, Host(profile=profile))
        self._numbering = Numbering()
        self._lock = threading.Lock()
        self._requests: list[CapturedRequest] = []
        self._rejected = 0
        self._server: LocalServer | None = None

    def __enter__(self) -> Self:
        # A web server is more than `assert_legal` should load.
        from toolmend.testing.http_server import LocalServer  # noqa: PLC0415 - see above

        if self._server is not None:
            raise RuntimeError("this provider is running already; make a second one")
        self._server = LocalServer(self._answer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def openai_base_url(self) -> str:
        """The `base_url` for an OpenAI client; RuntimeError outside of the `with`."""
        return f"{self._address}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """The `base_url` for an Anthropic client; RuntimeError outside of the `with`."""
        return self._address

    @property
    def gemini_base_url(self) -> str:
        """The `base_url` in the HTTP options of a google-genai client; RuntimeError as above."""
        return self._address

    @property
    def bedrock_endpoint_url(self) -> str:
        """The `endpoint_url` for a `bedrock-runtime` client of boto3; RuntimeError as above."""
        return self._address

    @property
    def requests(self) -> list[CapturedRequest]:
        """The requests so far, in the order in which they were answered; a copy."""
        with self._lock:
            return list(self._requests)

    @property
    def rejected(self) -> int:
        """How many requests were refused for their history; plain faults are not counted."""
        with self._lock:
            return self._rejected

    @property
    def _address(self) -> str:
        if self._server is None:
            raise RuntimeError(
                "the provider is not running: use it as `with StrictProvider() as …`"
            )
        return f"http://127.0.0.1:{self._server.port}"

    def _answer(self, request: Request) -> Response:
        endpoint = self._routes.find(request.path)
        if endpoint is None:
            outcome = _Outcome(refusal=_unknown_path(request))
            endpoint = self._routes.likely(request)
        else:
            outcome = self._consider(request, endpoint)
        request_id = self._numbering.next("req")
        events: tuple[bytes, ...] = ()
        if outcome.refusal is not None:
            status = outcome.refusal.status
            body = endpoint.error_body(outcome.refusal, request_id)
        else:
            status = outcome.reply.http_status
            body = endpoint.answer_body(outcome.body, outcome.reply, self._numbering)
            if endpoint.asks_model and endpoint.wants_stream(outcome.body):
                events = tuple(endpoint.events(outcome.body, body))
        self._capture(request, outcome, status, body)
        return Response(
            status=status,
            body=body,
            events=events,
            stream_type=endpoint.stream_type,
            headers=endpoint.headers(request_id, outcome.refusal),
            delay_seconds=outcome.reply.delay_seconds,
        )

    def _consider(self, request: Request, endpoint: Endpoint) -> _Outcome:
        if request.method != "POST":
            text = f"Not allowed to {request.method} on {request.path} (HINT: POST)."
            return _Outcome(refusal=Refusal(status=405, message=text))
        body = _read_object(request.raw_body)
        if body is None:
            text = "We could not parse the JSON body of your request."
            return _Outcome(refusal=Refusal(message=text))
        fault = endpoint.schema_fault(body)
        if fault is not None:
            return _Outcome(body=body, refusal=fault)
        problems = tuple(endpoint.history_problems(body))
        if problems:
            return _Outcome(
                body=body, problems=problems, refusal=endpoint.rejection(_decisive(problems))
            )
        reply = self._make_reply(body, request.path) if endpoint.asks_model else Reply()
        refusal = None
        if reply.is_error:
            text = reply.error or f"status {reply.http_status}"
            refusal = Refusal(status=reply.http_status, message=text)
        return _Outcome(body=body, refusal=refusal, reply=reply)

    def _make_reply(self, body: JsonObject, path: str) -> Reply:
        try:
            reply = self._reply(body, path)
            json.dumps([dict(call.arguments) for call in reply.tool_calls])
        except Exception as error:  # noqa: BLE001 - the guard around our own code
            return Reply(error=f"the reply function failed with {type(error).__name__}: {error}")
        return reply

    def _capture(
        self, request: Request, outcome: _Outcome, status: int, response: JsonObject
    ) -> None:
        captured = CapturedRequest(
            path=request.path,
            headers=request.headers,
            body=outcome.body,
            status=status,
            response=response,
            problems=outcome.problems,
        )
        with self._lock:
            self._requests.append(captured)
            self._rejected += bool(outcome.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of a request: refused for some reason, or replied to."""

    body: JsonObject = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    refusal: Refusal | None = None
    reply: Reply = field(default_factory=Reply)


def _decisive(problems: tuple[Problem, ...]) -> Problem:
    """Return the problem that the answer tells: calls and results before anything else."""
    pairing = (problem for problem in problems if problem.kind in ("dangling", "orphan"))
    return next(pairing, problems[0])


def _unknown_path(request: Request) -> Refusal:
    return Refusal(status=404, message=f"Invalid URL ({request.method} {request.path})")


def _read_object(raw_body: bytes) -> JsonObject | None:
    try:
        body = json.loads(raw_body, parse_int=_read_integer)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _read_integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # More digits than Python converts.
