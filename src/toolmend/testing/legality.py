"""Whether a provider would take a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend.testing.strict import (
    Allowance,
    Format,
    Host,
    Problem,
    Profile,
    find_problems,
    recognise,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def problems(
    messages: Iterable[object],
    *,
    format: Format,
    allow_open_tail: bool = False,
    allow_open: Collection[str] = frozenset(),
    allow_orphans: bool = False,
    profile: Profile | None = None,
    max_id_len: int | None = None,
    strict_alternation: bool = False,
    server_state: bool = False,
) -> list[Problem]:
    """Return why a provider refuses a history; an empty list when it takes it.

    The rules are those of the providers' documents and public reports; the source of each stands
    beside it in `toolmend.testing.strict`.

    Args:
        messages: Dicts, objects of the openai, anthropic and google-genai SDKs, or langchain-core
            messages; mixed lists too. Nothing is changed.
        format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `bedrock` or `langchain`.
        allow_open_tail: Calls of the last batch may be open when nothing but its own results
            stands behind it.
        allow_open: Ids of calls that may be open under the same condition.
        allow_orphans: Results without a call are accepted.
        profile: A host with rules of its own: `mistral`, `deepseek-thinking` or `dashscope` for
            `openai-chat` and `langchain`, `bedrock-open-weights` for `bedrock`.
        max_id_len: The longest id that the host takes.
        strict_alternation: The host joins no neighbouring user messages of `anthropic`, so one
            message holds all results of a batch.
        server_state: Earlier messages are on the server: results without a call, second uses and
            the head of the list are accepted. An `item_reference` in the list says the same.

    Raises:
        ValueError: The format or the profile is unknown, or the length no positive integer.
        TypeError: An item is no message.
    """
    allowance = Allowance(
        open_tail=allow_open_tail,
        open_ids=frozenset(allow_open),
        orphans=allow_orphans,
        server_state=server_state,
    )
    host = Host(profile=profile, max_id_len=max_id_len, strict_alternation=strict_alternation)
    return find_problems(list(messages), format, allowance, host)


def assert_legal(
    messages: Iterable[object],
    *,
    format: Format | None = None,
    allow_open_tail: bool = False,
    allow_open: Collection[str] = frozenset(),
    allow_orphans: bool = False,
    profile: Profile | None = None,
    max_id_len: int | None = None,
    strict_alternation: bool = False,
    server_state: bool = False,
) -> None:
    """Fail when a provider would refuse a history, with one line per problem.

    Args:
        messages: As for `problems`.
        format: As for `problems`; None recognises it from the shape of the messages.
        allow_open_tail: As for `problems`.
        allow_open: As for `problems`.
        allow_orphans: As for `problems`.
        profile: As for `problems`.
        max_id_len: As for `problems`.
        strict_alternation: As for `problems`.
        server_state: As for `problems`.

    Raises:
        AssertionError: The history is illegal.
        ValueError: The format cannot be recognised, or as for `problems`.
        TypeError: An item is no message.
    """
    __tracebackhide__ = True
    history = list(messages)
    known_format = recognise(history) if format is None else format
    found = problems(
        history,
        format=known_format,
        allow_open_tail=allow_open_tail,
        allow_open=allow_open,
        allow_orphans=allow_orphans,
        profile=profile,
        max_id_len=max_id_len,
        strict_alternation=strict_alternation,
        server_state=server_state,
    )
    if found:
        raise AssertionError("\n".join([_headline(known_format, len(found)), *map(_line, found)]))


def _headline(known_format: Format, count: int) -> str:
    return f"illegal {known_format} history, {count} problem{'s' if count > 1 else ''}:"


def _line(problem: Problem) -> str:
    ids = f" ({', '.join(problem.call_ids)})" if problem.call_ids else ""
    return f"  messages[{problem.index}] {problem.kind}{ids}: {problem.message}"
