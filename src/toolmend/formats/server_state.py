"""Server state: whether a request continues a history that lives on the provider's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_IDS: Final = ("previous_response_id", "previous_interaction_id")
_CONVERSATION: Final = "conversation"
_CONVERSATION_PREFIX: Final = "conv_"
_THREAD: Final = "thread"
STATE_FIELDS: Final = (*_IDS, _CONVERSATION, _THREAD)
"""The fields of a request that can say so."""


def continues(request: Mapping[str, Any]) -> bool:
    """Tell whether a request says that earlier messages are on the provider's server."""
    if any(isinstance(request.get(name), str) and request[name] for name in _IDS):
        return True
    # Applications call their own ids `conversation` too; the provider's start with `conv_`.
    conversation = request.get(_CONVERSATION)
    if isinstance(conversation, Mapping):
        conversation = conversation.get("id")
    if isinstance(conversation, str) and conversation.startswith(_CONVERSATION_PREFIX):
        return True
    thread = request.get(_THREAD)
    return isinstance(thread, Mapping) and thread.get("type") == "continue"
