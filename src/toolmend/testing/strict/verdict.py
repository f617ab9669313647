"""The verdict on a history under the rules of its format and its host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from toolmend.testing.strict.anthropic import judge_anthropic
from toolmend.testing.strict.bedrock import judge_bedrock
from toolmend.testing.strict.gemini import judge_gemini
from toolmend.testing.strict.host import ANY_HOST, Host
from toolmend.testing.strict.host_rules import judge_host
from toolmend.testing.strict.langchain import judge_langchain
from toolmend.testing.strict.openai_chat import judge_openai_chat
from toolmend.testing.strict.openai_responses import judge_openai_responses
from toolmend.testing.strict.plain import as_mapping
from toolmend.testing.strict.recogniser import Format
from toolmend.testing.strict.responses_items import refers_to_server

if TYPE_CHECKING:
    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem

    _Judge = Callable[[Sequence[Mapping[str, object]], Allowance], list[Problem]]

_JUDGES: dict[str, _Judge] = {
    "openai-chat": judge_openai_chat,
    "openai-responses": judge_openai_responses,
    "anthropic": judge_anthropic,
    "gemini": judge_gemini,
    "bedrock": judge_bedrock,
}
# What a list alone cannot tell while the server holds the messages before it.
_UNTOLD = frozenset({"orphan", "duplicate_result", "duplicate_id", "bad_first_turn"})


def find_problems(
    messages: Sequence[object], known_format: Format, allowance: Allowance, host: Host = ANY_HOST
) -> list[Problem]:
    """Return the problems of a history, in the order of its messages.

    ValueError for an unknown format, TypeError for an item that is no message.
    """
    is_on_server = allowance.server_state
    history: Sequence[object]
    if known_format == "langchain":
        _check_langchain(messages)
        history = messages
        found = judge_langchain(messages, allowance)
    else:
        judge = _JUDGES.get(known_format)
        if judge is None:
            names = ", ".join(repr(name) for name in get_args(Format))
            raise ValueError(f"format is one of {names}, not {known_format!r}")
        plain_messages = _plain(messages)
        history = plain_messages
        found = judge(plain_messages, allowance)
        if known_format == "openai-responses":
            is_on_server = is_on_server or refers_to_server(plain_messages)
    if is_on_server:
        found = [problem for problem in found if problem.kind not in _UNTOLD]
    found = judge_host(history, known_format, host, found)
    return sorted(found, key=lambda problem: problem.index)


def _check_langchain(messages: Sequence[object]) -> None:
    for index, message in enumerate(messages):
        is_short = isinstance(message, tuple)  # (role, text)
        if not is_short and not isinstance(message, Mapping) and not hasattr(message, "type"):
            raise _no_message(index, message)


def _plain(messages: Sequence[object]) -> list[Mapping[str, object]]:
    plain_messages: list[Mapping[str, object]] = []
    for index, message in enumerate(messages):
        plain_message = as_mapping(message)
        if plain_message is None:
            raise _no_message(index, message)
        plain_messages.append(plain_message)
    return plain_messages


def _no_message(index: int, message: object) -> TypeError:
    return TypeError(
        f"messages[{index}] is a {type(message).__name__}; a message is a dict or a message "
        "object of the SDK"
    )
