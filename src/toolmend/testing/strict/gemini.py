"""The rules of Gemini for a history with function calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolmend.testing.strict import gemini_problems
from toolmend.testing.strict.gemini_contents import (
    Content,
    Part,
    field_of,
    id_of,
    name_of,
    read_contents,
)
from toolmend.testing.strict.gemini_pairs import judge_pairs
from toolmend.testing.strict.plain import as_mapping, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.testing.strict.allowance import Allowance
    from toolmend.testing.strict.problem import Problem


def judge_gemini(messages: Sequence[Mapping[str, object]], allowance: Allowance) -> list[Problem]:
    """Return what Gemini refuses in a list of contents, in the order of the contents.

    Contents are judged one by one, in camelCase or snake_case; neighbours of one role are no
    problem. Code that the service runs and contents of unknown roles are not judged.
    """
    contents = read_contents(messages)
    found: list[Problem] = []
    for place, content in enumerate(contents):
        previous = contents[place - 1] if place else None
        following = contents[place + 1] if place + 1 < len(contents) else None
        found.extend(_judge_parts(content))
        if content.calls:
            found.extend(_judge_place(content, previous))
            found.extend(_judge_signatures(content))
            is_end = place + 2 >= len(contents)
            found.extend(judge_pairs(content, following, allowance, is_end=is_end))
        if content.responses:
            found.extend(_judge_strays(content, previous, allowance))
    return sorted(found, key=lambda problem: problem.index)


def _judge_parts(content: Content) -> Iterator[Problem]:
    if not content.is_known:
        return
    if not content.parts:
        yield gemini_problems.empty_content(content.index)
    for part in content.parts or ():
        yield from _judge_part(content.index, part)


def _judge_part(index: int, part: Part) -> Iterator[Problem]:
    position = part.position
    if part.fields is None:
        yield gemini_problems.invalid_shape(index, f"parts[{position}]")
        return
    if part.is_without_data:
        yield gemini_problems.empty_part(index, position)
    for name, value in (("functionCall", part.call), ("functionResponse", part.response)):
        if value is None and field_of(part.fields, name) is not None:
            yield gemini_problems.invalid_shape(index, f"parts[{position}].{name}")
    if part.call is not None:
        call_id = id_of(part.call)
        if is_blank(part.call.get("name")):
            yield gemini_problems.nameless_call(index, position, call_id)
        args = part.call.get("args")
        if args is not None and not isinstance(args, Mapping):
            yield gemini_problems.invalid_arguments(index, position, call_id)
    if part.response is not None and as_mapping(part.response.get("response")) is None:
        yield gemini_problems.invalid_result(index, position, id_of(part.response))


def _judge_place(content: Content, previous: Content | None) -> Iterator[Problem]:
    """Judge that calls come from the model, right behind a content of the user."""
    if previous is None:
        yield gemini_problems.bad_first_turn(content.index)
    elif previous.is_of_model or not content.is_of_model:
        yield gemini_problems.misplaced_call(content.index)


def _judge_signatures(content: Content) -> Iterator[Problem]:
    first, *others = content.calls
    if not first.is_signed and any(part.is_signed for part in others):
        call = first.call or {}
        yield gemini_problems.misplaced_signature(content.index, name_of(call), id_of(call))


def _judge_strays(
    content: Content, previous: Content | None, allowance: Allowance
) -> Iterator[Problem]:
    """Judge the responses that no content of calls stands before."""
    for part in content.responses:
        response_id = id_of(part.response or {})
        if content.is_of_model:
            yield gemini_problems.misplaced_result(content.index, response_id)
        elif not allowance.orphans and (previous is None or not previous.calls):
            yield gemini_problems.orphan(content.index, response_id, is_behind_calls=False)
