"""The rules of single hosts, over those of their format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from toolmend.testing.strict import bedrock_problems, host_problems
from toolmend.testing.strict.bedrock_blocks import read_messages
from toolmend.testing.strict.langchain import call_ids_of, content_of, reasoning_of, role_of
from toolmend.testing.strict.placed_ids import placed_ids
from toolmend.testing.strict.plain import as_items, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolmend.testing.strict.host import Host
    from toolmend.testing.strict.problem import Problem
    from toolmend.testing.strict.recogniser import Format

_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_CHAT_FORMATS = ("openai-chat", "langchain")


def judge_host(
    messages: Sequence[object], known_format: Format, host: Host, found: Sequence[Problem]
) -> list[Problem]:
    """Return the problems of a format in the words of the host, and those of the host beside them.

    Args:
        messages: The history; dicts in every format but `langchain`.
        known_format: Its format.
        host: Who is asked.
        found: The problems under the rules of the format.
    """
    problems = list(found)
    is_chat = known_format in _CHAT_FORMATS
    if host.profile == "mistral" and is_chat:
        problems = [host_problems.in_words_of_mistral(problem) for problem in problems]
        problems.extend(_judge_mistral(messages, known_format))
    elif host.profile == "deepseek-thinking" and is_chat:
        problems.extend(_judge_reasoning(messages))
    elif host.profile == "dashscope" and is_chat:
        empty = {problem.index for problem in problems if problem.kind == "empty_content"}
        problems = [host_problems.in_words_of_dashscope(problem) for problem in problems]
        problems.extend(problem for problem in _judge_empty(messages) if problem.index not in empty)
    plain_messages = cast("Sequence[Mapping[str, object]]", messages)
    if host.profile == "bedrock-open-weights" and known_format == "bedrock":
        problems.extend(_judge_mixed(plain_messages))
    if host.strict_alternation and known_format == "anthropic":
        problems.extend(_judge_split(plain_messages))
    if host.max_id_len is not None:
        problems.extend(_judge_length(messages, known_format, host.max_id_len))
    return problems


def _judge_length(
    messages: Sequence[object], known_format: Format, limit: int
) -> Iterator[Problem]:
    for placed in placed_ids(messages, known_format):
        if len(placed.call_id) > limit:
            yield host_problems.too_long_id(placed.index, placed.field, placed.call_id, limit)


def _judge_mistral(messages: Sequence[object], known_format: Format) -> Iterator[Problem]:
    before: object = None
    for index, message in enumerate(messages):
        role = role_of(message)
        if role == "user" and before == "tool":
            yield host_problems.mistral_order(index)
        before = role
    for placed in placed_ids(messages, known_format):
        if not _MISTRAL_ID.fullmatch(placed.call_id):
            yield host_problems.mistral_id(placed.index, placed.call_id)


def _judge_reasoning(messages: Sequence[object]) -> Iterator[Problem]:
    """Judge that calls have reasoning where other calls between the same user messages have it."""
    with_reasoning: list[int] = []
    without: list[int] = []
    for index, message in enumerate(messages):
        role = role_of(message)
        if role == "user":
            if with_reasoning:
                yield from map(host_problems.missing_reasoning, without)
            with_reasoning, without = [], []
        elif role == "assistant" and call_ids_of(message):
            reasoning = reasoning_of(message)
            if reasoning is not None and not isinstance(reasoning, str):
                yield host_problems.invalid_reasoning(index)
            else:
                (without if reasoning is None else with_reasoning).append(index)
    if with_reasoning:
        yield from map(host_problems.missing_reasoning, without)


def _judge_empty(messages: Sequence[object]) -> Iterator[Problem]:
    """Judge that messages say something; an empty result is a result."""
    for index, message in enumerate(messages):
        if role_of(message) not in ("user", "assistant", "system", "developer"):
            continue
        if content_of(message) in (None, "", [], ()) and not call_ids_of(message):
            yield host_problems.dashscope_empty(index)


def _judge_mixed(messages: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    for message in read_messages(messages):
        others = [
            block
            for block in message.blocks or ()
            if block.result is None and "cachePoint" not in (block.fields or {})
        ]
        if message.results and others:
            yield bedrock_problems.mixed_result_turn(message.index)


def _judge_split(messages: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """Judge that no result of a batch stands in a second user message behind it."""
    before: object = None
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == before == "user" and any(
            (as_mapping(item) or {}).get("type") == "tool_result"
            for item in as_items(message.get("content")) or ()
        ):
            yield host_problems.split_results(index)
        before = role
