"""Starting and ending the programs that service tests run."""

from __future__ import annotations

import socket
import subprocess


def free_ports(count):
    """Return ports of the loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def stop(process, seconds):
    """End a process that was started here, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)
