"""Reading boards, filling in their variables, and asking a server that speaks Prometheus' API."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.parse
from contextlib import contextmanager

import pytest

from toolmend._boards.answers import VARIABLES, ask
from toolmend._boards.prometheus import Prometheus, PrometheusError, QueryRefusedError, Sample
from toolmend._boards.reading import fill, read_board, read_boards

MODEL = {
    "uid": "one",
    "title": "One",
    "panels": [
        {
            "title": "below",
            "gridPos": {"x": 0, "y": 4},
            "targets": [
                {"datasource": {"type": "loki"}, "expr": "{a=`b`}"},
                {"datasource": {"type": "tempo"}, "query": "{ }"},
            ],
        },
        {"title": "words", "gridPos": {"x": 0, "y": 2}},
        {
            "title": "right",
            "gridPos": {"x": 8, "y": 0},
            "targets": [
                {"datasource": {"type": "prometheus"}, "expr": "r", "legendFormat": "{{tool}}"}
            ],
        },
        {
            "title": "left",
            "gridPos": {"x": 0, "y": 0},
            "targets": [
                {"datasource": {"type": "prometheus"}, "expr": 'l{job=~"$job"}', "instant": True}
            ],
        },
    ],
    "annotations": {"list": [{"name": "mark", "expr": "m"}]},
    "templating": {
        "list": [
            {"type": "datasource", "name": "metrics"},
            {
                "type": "query",
                "name": "job",
                "label": "Service",
                "query": 'label_values(s{a="b"}, job)',
            },
        ]
    },
}


@contextmanager
def server(answer):
    """A server whose answers are ``answer(path, parameters)``: a status and a body."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_args):
            pass

        def _serve(self):
            path, _, question = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            parameters = dict(urllib.parse.parse_qsl(question or body))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.append((path, parameters, headers))
            status, text = answer(path, parameters)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _serve  # noqa: N815 - the server's own names

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}", seen
        finally:
            running.shutdown()
            thread.join(10)


def vector(*pairs):
    result = [{"metric": labels, "value": [0, str(value)]} for labels, value in pairs]
    return 200, json.dumps({"status": "success", "data": {"result": result}})


def test_queries_come_in_the_order_of_the_eye():
    board = read_board(MODEL)

    assert [(q.place, q.title, q.language) for q in board.queries] == [
        ("panel", "left", "promql"),
        ("panel", "right", "promql"),
        ("panel", "below", "logql"),
        ("panel", "below", "traceql"),
        ("annotation", "mark", "promql"),
        ("variable", "Service", "promql"),
    ]
    assert board.queries[-1].label == "job"
    assert board.queries[-1].text == 's{a="b"}'


def test_a_variable_that_lists_no_label_is_told():
    model = {**MODEL, "templating": {"list": [{"type": "query", "name": "x", "query": "up"}]}}

    with pytest.raises(ValueError, match="variable x"):
        read_board(model)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('a{job=~"$job"}[$__range]', 'a{job=~".*"}[6h]'),
        ("${job:pipe} ${job}", ".* .*"),
        ("[$__rate_interval] offset $__interval", "[4m] offset 5m"),
        ("a", "a"),
    ],
)
def test_variables_are_filled_in(text, filled):
    assert fill(text, VARIABLES) == filled


def test_a_variable_without_a_value_is_an_error():
    with pytest.raises(KeyError, match="stranger"):
        fill("$stranger", VARIABLES)


def test_every_query_of_the_boards_can_be_filled_in():
    for board in read_boards():
        for query in board.queries:
            if query.language == "promql":
                assert "$" not in fill(query.text, VARIABLES)


def test_a_board_is_asked_query_by_query():
    def answer(path, parameters):
        if path.endswith("/label/job/values"):
            return 200, json.dumps({"data": ["a", "b"]})
        if parameters["query"] == "r":
            return 400, json.dumps({"status": "error", "error": "parse error"})
        if parameters["query"] == "m":
            return vector()
        return vector(({"tool": "search"}, 3))

    with server(answer) as (url, seen):
        answers = list(ask(Prometheus(f"{url}/", {"X-Who": "me"}), read_board(MODEL)))

    left, right, logs, traces, mark, variable = answers
    assert left.samples == (Sample({"tool": "search"}, 3.0),)
    assert right.refusal == "Prometheus refused the query: parse error"
    assert (logs.samples, traces.samples) == (None, None)
    assert mark.is_empty
    assert variable.values == ("a", "b")
    assert not any(each.is_empty for each in (left, right, logs, traces, variable))
    assert seen[0][1] == {"query": 'l{job=~".*"}'}
    assert {headers["x-who"] for _, _, headers in seen} == {"me"}


def test_a_scalar_is_one_value():
    with server(lambda *_: (200, '{"data": {"result": [0, "7"]}}')) as (url, _):
        assert Prometheus(url).query("7") == [Sample({}, 7.0)]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, "<html>", "does not answer as a Prometheus"),
        (200, "[]", "does not answer as a Prometheus"),
        (404, "<html>", "is this a Prometheus"),
        (401, "", "is this a Prometheus"),
        (502, '{"error": 3', "is this a Prometheus"),
        (302, "", "answered 302"),
        (200, '{"data": null}', "does not answer as a Prometheus"),
        (200, '{"data": {}}', "does not answer as a Prometheus"),
        (200, '{"data": {"result": [{}]}}', "does not answer as a Prometheus"),
        (200, '{"data": {"result": 7}}', "does not answer as a Prometheus"),
        (200, '{"data": {"result": [{"metric": {}, "value": [0, "abc"]}]}}', "does not answer"),
    ],
)
def test_what_is_no_prometheus_is_told(status, body, message):
    with (
        server(lambda *_: (status, body)) as (url, _),
        pytest.raises(PrometheusError, match=message) as caught,
    ):
        Prometheus(url).query("up")
    assert not isinstance(caught.value, QueryRefusedError)


def test_a_server_that_is_not_there_is_told():
    with pytest.raises(PrometheusError, match=r"no Prometheus answers at http://127\.0\.0\.1:9: "):
        Prometheus("http://127.0.0.1:9").query("up")


def test_what_speaks_no_http_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        with pytest.raises(PrometheusError, match="no Prometheus answers at"):
            Prometheus(f"http://127.0.0.1:{listener.getsockname()[1]}").query("up")
        thread.join(10)


def test_headers_do_not_follow_a_redirect():
    with server(lambda *_: vector()) as (elsewhere, seen):

        class Redirect(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_args):
                pass

            def do_POST(self):
                self.send_response(302)
                self.send_header("location", f"{elsewhere}/steal")
                self.end_headers()

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect) as running:
            thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{running.server_address[1]}"
            with pytest.raises(PrometheusError, match="answered 302"):
                Prometheus(url, {"Authorization": "Bearer secret"}).query("up")
            running.shutdown()
            thread.join(10)
    assert seen == []


def test_label_values_that_are_none_are_told():
    answer = server(lambda *_: (200, '{"data": {"a": 1}}'))
    with answer as (url, _), pytest.raises(PrometheusError, match="does not answer"):
        Prometheus(url).label_values("up", "job")
