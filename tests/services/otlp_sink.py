"""OTLP receivers inside the test process: they decode what arrives and keep it."""

from __future__ import annotations

import gzip
import http.server
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

_REQUESTS = {
    "traces": trace_service_pb2.ExportTraceServiceRequest,
    "metrics": metrics_service_pb2.ExportMetricsServiceRequest,
    "logs": logs_service_pb2.ExportLogsServiceRequest,
}
_RESPONSES = {
    "traces": trace_service_pb2.ExportTraceServiceResponse,
    "metrics": metrics_service_pb2.ExportMetricsServiceResponse,
    "logs": logs_service_pb2.ExportLogsServiceResponse,
}


class Arrived(NamedTuple):
    """One span, metric or log record, with where it came from."""

    signal: str
    resource: dict
    scope: object
    item: object


@dataclass
class Sink:
    """What has arrived, and the headers it came with."""

    url: str = ""
    arrived: list[Arrived] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def keep(self, signal, request, headers):
        with self._news:
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.arrived.extend(_items(signal, request))
            self._news.notify_all()

    def wait_for(self, service_name, *signals, seconds=15.0):
        """Return what a service sent, by signal, once each of ``signals`` has come; else fail."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                found = {signal: [] for signal in _REQUESTS}
                for arrived in self.arrived:
                    if arrived.resource.get("service.name") == service_name:
                        found[arrived.signal].append(arrived)
                if all(found[signal] for signal in signals):
                    return found
                left = deadline - time.monotonic()
                assert left > 0, f"of {signals} only {[s for s in found if found[s]]} arrived"
                self._news.wait(left)


@contextmanager
def http_sink():
    sink = Sink()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            signal = self.path.removeprefix("/v1/")
            sink.keep(signal, _REQUESTS[signal].FromString(body), dict(self.headers.items()))
            answer = _RESPONSES[signal]().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        sink.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield sink
        finally:
            server.shutdown()
            thread.join(10)


@contextmanager
def grpc_sink():
    sink = Sink()

    def servicer(base, signal):
        class Servicer(base):
            def Export(self, request, call):  # noqa: N802 - the protocol's name
                sink.keep(signal, request, dict(call.invocation_metadata()))
                return _RESPONSES[signal]()

        return Servicer()

    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(
        servicer(trace_service_pb2_grpc.TraceServiceServicer, "traces"), server
    )
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        servicer(metrics_service_pb2_grpc.MetricsServiceServicer, "metrics"), server
    )
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(
        servicer(logs_service_pb2_grpc.LogsServiceServicer, "logs"), server
    )
    sink.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield sink
    finally:
        server.stop(None).wait(10)


def plain(attributes):
    """Return OTLP key-values as a dict; lists of strings as tuples."""
    return {pair.key: _value(pair.value) for pair in attributes}


def _value(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(item) for item in value.array_value.values)
    return getattr(value, kind) if kind else None


def _items(signal, request):
    for outer in getattr(request, {"traces": "resource_spans"}.get(signal, f"resource_{signal}")):
        resource = plain(outer.resource.attributes)
        for inner in getattr(outer, {"traces": "scope_spans"}.get(signal, f"scope_{signal}")):
            for item in getattr(
                inner, {"traces": "spans", "logs": "log_records"}.get(signal, signal)
            ):
                yield Arrived(signal, resource, inner.scope, item)
