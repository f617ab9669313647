"""The verdict on a history under the rules of its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolmend.testing.strict.anthropic import judge_anthropic
from toolmend.testing.strict.langchain import judge_langchain
from toolmend.testing.strict.openai_chat import judge_openai_chat
from toolmend.testing.strict.plain import as_mapping

if TYPE_CHECKING:
    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem
    from toolmend.testing.strict.recogniser import Format


def find_problems(
    messages: Sequence[object], known_format: Format, allowance: Allowance
) -> list[Problem]:
    """Return the problems of a history, in the order of its messages.

    ValueError for an unknown format, TypeError for an item that is no message.
    """
    if known_format == "langchain":
        for index, message in enumerate(messages):
            is_short = isinstance(message, tuple)  # (role, text)
            if not is_short and not isinstance(message, Mapping) and not hasattr(message, "type"):
                raise _no_message(index, message)
        return judge_langchain(messages, allowance)
    if known_format not in ("openai-chat", "anthropic"):
        raise ValueError(
            f"format is one of 'openai-chat', 'anthropic' and 'langchain', not {known_format!r}"
        )
    plain_messages: list[Mapping[str, object]] = []
    for index, message in enumerate(messages):
        plain_message = as_mapping(message)
        if plain_message is None:
            raise _no_message(index, message)
        plain_messages.append(plain_message)
    if known_format == "anthropic":
        return judge_anthropic(plain_messages, allowance)
    return judge_openai_chat(plain_messages, allowance)


def _no_message(index: int, message: object) -> TypeError:
    return TypeError(
        f"messages[{index}] is a {type(message).__name__}; a message is a dict or a message "
        "object of the SDK"
    )
