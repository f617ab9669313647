"""Sightings: whether something was seen before, in a bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from toolmend.formats.fields import get
from toolmend.mending.ids import fingerprint

if TYPE_CHECKING:
    from collections.abc import Hashable

    from toolmend.formats.batches import CallFacts

_MEMORY: Final = 20_000
_SKETCH: Final = 4_096
_MAX_KEPT: Final = 200


class Sightings:
    """Remembers the latest marks; thread-safe."""

    def __init__(self, limit: int = _MEMORY) -> None:
        self._limit = limit
        self._marks: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def renew_lock(self) -> None:
        """Replace a lock that another thread may have held when this process was forked."""
        self._lock = threading.Lock()

    def is_first(self, mark: Hashable) -> bool:
        """Tell whether a mark is new, and remember it."""
        with self._lock:
            if mark in self._marks:
                self._marks.move_to_end(mark)
                return False
            self._marks[mark] = None
            if len(self._marks) > self._limit:
                self._marks.popitem(last=False)
            return True


def call_digest(call: CallFacts, before: object) -> bytes:
    """Return a digest that tells one use of a call id from another; it never leaves the process.

    Made of the tool's name, the arguments and the message right before the batch, of which the first
    4 KiB and the length count.
    """
    digest = blake2b(digest_size=16)
    for text in (str(call.name), fingerprint(call.arguments), _sketch(before)):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def short(text: str | None) -> str | bytes | None:
    """Return a text, or a digest of one that is too long to be remembered as it is."""
    if text is None or len(text) <= _MAX_KEPT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _sketch(message: object) -> str:
    content = message if isinstance(message, str) else get(message, "content")
    if isinstance(content, str):
        return f"{len(content)}:{content[:_SKETCH]}"
    if not isinstance(content, list | tuple):
        return ""
    texts: list[str] = []
    room = _SKETCH
    for block in content:
        text = next(
            (
                value
                for value in (get(block, name) for name in ("text", "content", "type"))
                if isinstance(value, str)
            ),
            "",
        )
        texts.append(f"{len(text)}:{text[:room]}")
        room -= len(text)
        if room <= 0:
            break
    return f"{len(content)}:" + "".join(texts)
