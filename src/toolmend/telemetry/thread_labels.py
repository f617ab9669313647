"""Thread labels: ids of conversations as telemetry may show them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from toolmend.settings import settings
from toolmend.telemetry.label_sets import as_label

if TYPE_CHECKING:
    from toolmend.settings import ThreadLabel

_MAX_KEY_BYTES: Final = 64


def thread_label(thread_id: str, label: ThreadLabel | None = None) -> str:
    """Return the id of a conversation as it is, or hashed where an operator or a decorator asks for it."""
    if (label or settings().thread_label) == "raw":
        return as_label(thread_id)
    key = settings().digest_key.encode("utf-8", "surrogateescape")[:_MAX_KEY_BYTES]
    return blake2b(thread_id.encode("utf-8", "surrogatepass"), key=key, digest_size=8).hexdigest()
