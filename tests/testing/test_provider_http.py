"""The strict provider below the SDKs: connections, faults, delays, the end of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolmend.testing import Reply, StrictProvider, ToolCall

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def connect(provider):
    host, port = provider.anthropic_base_url.removeprefix("http://").split(":")
    return http.client.HTTPConnection(host, int(port), timeout=10)


def exchange(connection, path, body, method="POST", headers=None):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, raw, headers or {})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def post(provider, path, body, **options):
    connection = connect(provider)
    try:
        return exchange(connection, path, body, **options)
    finally:
        connection.close()


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000], ids=repr)
@pytest.mark.parametrize(
    "path",
    [
        CHAT,
        "/v1/messages",
        "/v1/responses",
        "/v1beta/models/m:generateContent",
        "/model/m/converse",
    ],
)
def test_a_body_that_is_no_json_object(strict_provider, path, raw):
    status, body = post(strict_provider, path, raw)
    assert status == 400
    assert body.get("error", body)["message"] == "We could not parse the JSON body of your request."
    assert strict_provider.rejected == 0
    assert strict_provider.requests[0].body == {}


def test_a_number_too_long_for_python(strict_provider):
    raw = json.dumps(BODY).replace('"m"', '"m", "n": ' + "7" * 5000).encode()
    assert post(strict_provider, CHAT, raw)[0] == 200


@pytest.mark.parametrize("path", [CHAT, "/chat/completions", CHAT + "?a=b"])
def test_paths_of_chat(strict_provider, path):
    assert post(strict_provider, path, BODY)[1]["object"] == "chat.completion"


@pytest.mark.parametrize(
    ("method", "path", "headers", "answer"),
    [
        ("POST", "/v2/chat", {}, (404, {"error"})),
        (
            "POST",
            "/v1/complete",
            {"anthropic-version": "x"},
            (404, {"type", "error", "request_id"}),
        ),
        ("POST", "/v1/messages/batches", {}, (404, {"type", "error", "request_id"})),
        ("GET", CHAT, {}, (405, {"error"})),
        ("DELETE", "/v1/messages", {}, (405, {"type", "error", "request_id"})),
    ],
)
def test_wrong_paths_and_methods(strict_provider, method, path, headers, answer):
    status, body = post(strict_provider, path, BODY, method=method, headers=headers)
    assert (status, set(body)) == answer
    assert strict_provider.rejected == 0


def test_a_body_without_length(strict_provider, capfd):
    connection = connect(strict_provider)
    connection.request("POST", CHAT, iter([b"{}"]), {"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 411
    connection.close()
    assert capfd.readouterr() == ("", "")


def test_one_connection_serves_many_requests(strict_provider):
    connection = connect(strict_provider)
    connection.connect()
    first = connection.sock
    for number in range(1, 51):
        status, body = exchange(connection, CHAT, BODY)
        assert (status, body["id"]) == (200, f"chatcmpl_{number:06d}")
        exchange(connection, CHAT, {**BODY, "messages": []})
    assert connection.sock is first
    connection.close()
    assert len(strict_provider.requests) == 100


def test_many_threads(strict_provider):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(strict_provider, CHAT, BODY), range(400)))
    assert len({body["id"] for _, body in answers}) == 400
    assert len(strict_provider.requests) == 400


def test_it_is_fast(strict_provider):
    connection = connect(strict_provider)
    start = time.perf_counter()
    for _ in range(1000):
        exchange(connection, CHAT, BODY)
    assert time.perf_counter() - start < 10
    connection.close()


def test_the_reply_sees_body_and_path():
    seen = []

    def reply(body, path):
        seen.append((body, path))
        return Reply("x")

    with StrictProvider(reply) as provider:
        post(provider, CHAT, BODY)
    assert seen == [(BODY, CHAT)]


def raise_error(body, path):
    raise LookupError("no such scene")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (raise_error, "LookupError: no such scene"),
        (lambda body, path: "text", "AttributeError: "),
        (lambda body, path: Reply(tool_calls=(ToolCall("f", {"a": {1}}),)), "TypeError: "),
    ],
    ids=["raises", "returns no reply", "arguments that are no JSON"],
)
def test_a_reply_that_fails(reply, words):
    with StrictProvider(reply) as provider:
        status, body = post(provider, CHAT, BODY)
    assert status == 500
    assert body["error"]["message"].startswith("the reply function failed with " + words)


def test_delay():
    with StrictProvider(lambda body, path: Reply(delay_seconds=0.2)) as provider:
        start = time.perf_counter()
        post(provider, CHAT, BODY)
        assert time.perf_counter() - start >= 0.2


def test_a_client_that_gives_up(capfd):
    with StrictProvider(lambda body, path: Reply(delay_seconds=0.1)) as provider:
        connection = connect(provider)
        connection.request("POST", CHAT, json.dumps({**BODY, "stream": True}))
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        time.sleep(0.3)
        assert post(provider, CHAT, BODY)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_the_end_waits_for_nobody():
    """Open connections and long delays end with the provider, and so do its threads."""
    before = set(threading.enumerate())
    idle_and_busy = []
    start = time.perf_counter()
    with StrictProvider(lambda body, path: Reply(delay_seconds=60)) as provider:
        for _ in range(2):
            idle_and_busy.append(connect(provider))
            idle_and_busy[-1].connect()
        idle_and_busy[0].request("POST", CHAT, json.dumps(BODY))
        while not provider.requests:
            time.sleep(0.01)
    assert time.perf_counter() - start < 5
    assert set(threading.enumerate()) <= before
    for connection in idle_and_busy:
        connection.close()


def test_only_inside_the_with():
    provider = StrictProvider()
    for name in (
        "openai_base_url",
        "anthropic_base_url",
        "gemini_base_url",
        "bedrock_endpoint_url",
    ):
        with pytest.raises(RuntimeError, match="use it as `with"):
            getattr(provider, name)
    with provider:
        with pytest.raises(RuntimeError, match="running already"):
            provider.__enter__()
        assert provider.openai_base_url == provider.anthropic_base_url + "/v1"
        assert provider.gemini_base_url == provider.bedrock_endpoint_url
    with provider:  # again, with what it captured so far
        post(provider, CHAT, BODY)
    assert len(provider.requests) == 1


def test_requests_are_a_copy(strict_provider):
    strict_provider.requests.append("x")
    assert strict_provider.requests == []


def test_unknown_flavour():
    with pytest.raises(ValueError, match="'openai' or 'compatible', not 'azure'"):
        StrictProvider(flavour="azure")
