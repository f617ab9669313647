"""The rules of OpenAI Chat Completions for a history with tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.testing.strict import chat_problems
from toolmend.testing.strict.arguments import is_json_object
from toolmend.testing.strict.chat_runs import Assistant, Break, Entry, Result, judge_runs
from toolmend.testing.strict.plain import as_id, as_items, as_mapping, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


def judge_openai_chat(
    messages: Sequence[Mapping[str, object]], allowance: Allowance
) -> list[Problem]:
    """Return what OpenAI Chat refuses in a list of messages, in the order of the messages.

    Judged are calls, results and the content of assistant messages. Legacy `function_call` and
    `function` messages and unknown roles are not judged, but end a run of results.
    """
    found: list[Problem] = []
    entries: list[Entry] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            entries.append(Result(call_id=message.get("tool_call_id")))
        elif role == "assistant":
            calls = _calls_of(message)
            found.extend(_judge_assistant(index, message))
            entries.append(Assistant(call_ids=tuple(as_id(call.get("id")) for call in calls)))
        else:
            entries.append(Break())
    found.extend(judge_runs(entries, allowance))
    return sorted(found, key=lambda problem: problem.index)


def _calls_of(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    calls = as_items(message.get("tool_calls")) or ()
    return [as_mapping(call) or {} for call in calls]


def _judge_assistant(index: int, message: Mapping[str, object]) -> Iterator[Problem]:
    raw_calls = message.get("tool_calls")
    calls = as_items(raw_calls)
    if raw_calls is not None and calls is None:
        yield chat_problems.invalid_shape(index, "tool_calls", "an array")
    if calls is not None and not calls:
        yield chat_problems.empty_tool_calls(index)
    if not raw_calls and not _says_something(message):
        yield chat_problems.empty_content(index)
    for position, raw_call in enumerate(calls or ()):
        call = as_mapping(raw_call)
        if call is None:
            yield chat_problems.invalid_shape(index, f"tool_calls[{position}]", "an object")
        else:
            yield from _judge_call(index, position, call)


def _says_something(message: Mapping[str, object]) -> bool:
    # An empty string is content: providers accept it where they refuse null.
    if message.get("content") not in (None, [], ()):
        return True
    if message.get("function_call") is not None or message.get("audio") is not None:
        return True
    return bool(message.get("refusal"))


def _judge_call(index: int, position: int, call: Mapping[str, object]) -> Iterator[Problem]:
    call_id = as_id(call.get("id"))
    kind = "custom" if call.get("type") == "custom" else "function"
    body = as_mapping(call.get(kind)) or {}
    if is_blank(body.get("name")):
        yield chat_problems.nameless_call(index, position, f"{kind}.name", call_id)
    # The input of a custom call is free text.
    if kind == "function" and not is_json_object(body.get("arguments")):
        yield chat_problems.invalid_arguments(index, position, call_id)
