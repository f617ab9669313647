"""The binary event stream of AWS."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

AWS_EVENT_STREAM = "application/vnd.amazon.eventstream"
"""The media type of the stream."""

_STRING = 7
_FRAME_BYTES = 16  # Two lengths and two checksums.


def aws_event(kind: str, data: Mapping[str, object]) -> bytes:
    """Return one event: lengths, their checksum, headers, JSON, and the checksum of all."""
    headers = b"".join(
        _header(name, value)
        for name, value in (
            (":event-type", kind),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    payload = json.dumps(data, separators=(",", ":")).encode()
    lengths = struct.pack(">II", _FRAME_BYTES + len(headers) + len(payload), len(headers))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    return struct.pack(
        f">B{len(name)}sBH{len(value)}s",
        len(name),
        name.encode(),
        _STRING,
        len(value),
        value.encode(),
    )
