"""A small HTTP/1.1 server on 127.0.0.1 that prints nothing and ends cleanly."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

from toolmend.testing.exchange import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable

_JOIN_SECONDS = 5.0
_POLL_SECONDS = 0.02


class LocalServer:
    """Serves a function from requests to responses until `close`; one thread per connection."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self._server = _Server(answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": _POLL_SECONDS},
            name="toolmend-strict-provider",
            daemon=True,
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that the system chose."""
        return self._server.server_port

    def close(self) -> None:
        """Stop, end open connections and delays, and join all threads."""
        self._server.stopping.set()
        self._server.shutdown()
        self._thread.join(_JOIN_SECONDS)
        self._server.end_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self.answer = answer
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: object, client_address: object) -> None:
        connection = cast("socket.socket", request)
        thread = threading.Thread(
            target=self._serve_connection, args=(connection, client_address), daemon=True
        )
        with self._lock:
            self._connections[connection] = thread
        thread.start()

    def _serve_connection(self, connection: socket.socket, client_address: tuple[str, int]) -> None:
        try:
            self.process_request_thread(connection, client_address)
        finally:
            with self._lock:
                del self._connections[connection]

    def end_connections(self) -> None:
        """Wake the threads that wait for the next request of a connection, and join them."""
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):  # The client was faster.
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            thread.join(_JOIN_SECONDS)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: what ends here is a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _handle(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            self.close_connection = True
            self.send_error(HTTPStatus.LENGTH_REQUIRED)
            return
        request = Request(
            method=self.command,
            path=self.path.partition("?")[0],
            headers={name.lower(): value for name, value in self.headers.items()},
            raw_body=self.rfile.read(int(length)),
        )
        response = self.server.answer(request)
        if response.delay_seconds > 0 and self.server.stopping.wait(response.delay_seconds):
            self.close_connection = True
            return
        self._send(response)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the name that the base class calls

    def _send(self, response: Response) -> None:
        if response.events:
            kind, parts = response.stream_type, response.events
        else:
            kind, parts = "application/json", (json.dumps(response.body).encode(),)
        headers = {
            **response.headers,
            "content-type": kind,
            "content-length": str(sum(map(len, parts))),
            "connection": "close" if self.close_connection else "keep-alive",
        }
        phrase = self.responses.get(response.status, ("Error",))[0]
        head = [f"HTTP/1.1 {response.status} {phrase}"]
        head.extend(f"{name}: {value}" for name, value in headers.items())
        # One write for head and body: a client never waits for a second packet.
        first, *others = parts
        self.wfile.write("\r\n".join([*head, "", ""]).encode("latin-1") + first)
        for part in others:
            self.wfile.write(part)
