"""One HTTP request and its response, apart from any server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request, its header names in lower case and its path without a query."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw_body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One HTTP response: a JSON body, or the events of a stream and their media type."""

    status: int
    body: object
    events: tuple[bytes, ...] = ()
    stream_type: str = ""
    headers: Mapping[str, str]
    delay_seconds: float = 0
