"""Thread labels: ids of conversations as telemetry may show them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, get_args

from toolmend.errors import PolicyError
from toolmend.settings import ThreadLabel, settings
from toolmend.telemetry.label_sets import as_label

_MAX_KEY_BYTES: Final = 64
_LABELS: Final = (None, *get_args(ThreadLabel))


def check_thread_label(label: object) -> None:
    """Refuse a label that nobody knows.

    Raises:
        PolicyError: it is none.
    """
    if label not in _LABELS:
        raise PolicyError(f"thread_label must be 'raw' or 'hash'; got {label!r}")


def thread_label(thread_id: str, label: ThreadLabel | None = None) -> str:
    """Return the id of a conversation as it is, or hashed where an operator or the code asks for it."""
    if (label or settings().thread_label) == "raw":
        return as_label(thread_id)
    key = settings().digest_key.encode("utf-8", "surrogateescape")[:_MAX_KEY_BYTES]
    return blake2b(thread_id.encode("utf-8", "surrogatepass"), key=key, digest_size=8).hexdigest()
