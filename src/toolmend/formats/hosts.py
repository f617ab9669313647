"""Hosts: whether a history that is legal in its format also suits a host that asks more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.formats.fields import get
from toolmend.mending.ids import IdShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolmend.formats import Format
    from toolmend.mending.policy import Policy


def suits_host(messages: Sequence[object], wire: Format, policy: Policy) -> bool:
    """Tell in one pass whether nothing has to be done; a no is a doubt.

    Args:
        messages: a history that its format takes.
        wire: the format.
        policy: says what the host asks.
    """
    shape = IdShape.of(wire.RULES, policy)
    is_mistral = policy.profile == "mistral"
    wants_content = policy.profile == "dashscope"
    was_result = was_user = False
    for message in messages:
        calls = wire.calls_of(message)
        for call in calls or ():
            if not (isinstance(call.id, str) and shape.takes(call.id)):
                return False
        is_user = calls is None and wire.begins(message)
        if wants_content and not calls and not get(message, "content"):
            return False
        if is_mistral and is_user and was_result:
            return False
        if policy.strict_alternation and calls is None and not is_user and was_user:
            return False
        was_result = calls is None and not is_user
        was_user = calls is None
    return True
