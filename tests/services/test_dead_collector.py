"""A collector that does not answer costs a process no call and three seconds at its end, no more."""

from __future__ import annotations

import socket

import pytest

# The shutdown takes three seconds; the rest is for the other tests on the same cores. Whoever waited
# for an export would wait for an hour, see below.
EXIT_SECONDS = 20.0
PROTOCOLS = ("http/protobuf", "grpc")
# An export that blocked a call would block it for an hour, and the test would fail by its own limit.
PATIENT = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=1"}


@pytest.fixture(scope="module")
def refusing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def silent():
    """Connections are accepted and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def unreachable():
    """Connections are not even accepted: the backlog is full, as behind a firewall that drops."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        waiting = []
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(address)
            waiting.append(each)
        yield f"http://127.0.0.1:{address[1]}"
        for each in waiting:
            each.close()


CASES = {
    f"{kind} {protocol} {end}": (kind, protocol, end)
    for kind, end in [
        ("refusing", "return"),
        ("silent", "return"),
        ("unreachable", "return"),
        ("silent", "exit"),
        ("refusing", "raise"),
        ("silent", "with"),
    ]
    for protocol in PROTOCOLS
}


@pytest.fixture(scope="module")
def ended(start, refusing, silent, unreachable):
    """Every case at once: together they take as long as one."""
    urls = {"refusing": refusing, "silent": silent, "unreachable": unreachable}
    running = {
        case: start(
            service_name="dead", protocol=protocol, endpoint=urls[kind], end=end, env=PATIENT
        )
        for case, (kind, protocol, end) in CASES.items()
    }
    return {case: application.wait(60) for case, application in running.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_process_ends_in_time(ended, case):
    _, _, end = CASES[case]
    result = ended[case]
    assert result.seconds_to_exit < EXIT_SECONDS
    assert (result.code, result.stdout) == ({"exit": 3, "raise": 1}.get(end, 0), "")
    assert ("the application failed" in result.stderr) is (end == "raise")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_emitting_does_not_wait_for_an_export_that_hangs(start, silent, protocol):
    result = start(
        service_name="dead",
        protocol=protocol,
        endpoint=silent,
        env=PATIENT,
        flush_first=True,
        count=3000,
    ).wait(60)
    # The flush was given up, so exports were hanging when 3,000 spans and log records were emitted,
    # more than the queues hold.
    assert result.report["flushed"] is False
    assert result.seconds_to_exit < EXIT_SECONDS
    assert result.stdout == ""
