"""The pages about failing tools, made from the tables that the guard decides by."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from toolmend.execution import texts
from toolmend.execution.classify import rule_of_status
from toolmend.execution.error_types import MEANINGS
from toolmend.execution.failures import Failure
from toolmend.execution.known_errors import AMBIGUOUS, BY_CLASS, MISHAP, NOT_SENT, Rule
from toolmend.telemetry.names import ErrorType

if TYPE_CHECKING:
    from collections.abc import Mapping

WHAT: Mapping[ErrorType, str] = {
    "invalid_arguments": "the model's arguments do not fit the tool",
    "invalid_schema": "the tool's own schema is broken",
    "unknown_tool": "there is no such tool",
    "timeout": "the time limit ended a tool that may be run again",
    "outcome_unknown": "the time limit ended a tool that must not be run twice",
    "transient": "a failure that may pass: connection lost, 5xx, locked, an exception nobody knows",
    "rate_limited": "the other side asks to come back later",
    "denied": "it refuses everyone: 401, 403, no credentials",
    "gone": "it is not there for anyone: 405, 501, an endpoint that was removed",
    "permanent": "it refuses this argument: 400, 404, 422, a `ValueError`",
    "invalid_result": "the tool returned what its schema or check refuses, with `strict_result=True`",
    "breaker_open": "the breaker lets no call through",
    "cancelled": "the caller did not wait any longer",
    "crashed": "the process ended",
}
"""Every error type: what it means."""

_REPEATS = {
    "never": "never",
    "if_safe": "if the tool bears it, or it was certainly not sent",
    "always": "yes, after the wait that the other side asks for",
}
_VERDICTS = {
    "failed": "counts",
    "ok": "counts as fine",
    "ignored": "ignores it",
    "denied": "opens at once",
    "gone": "opens at once",
    "invalid_schema": "opens at once",
}
_MADE = "<!-- Made by `make docs` from the code; changes here are lost. -->"
_TOOL = "book_room"
_ALL_STATUSES = range(400, 512)
_FIRST_SERVER, _OTHER_CLIENT, _OTHER_SERVER = 500, 499, 599


def retries_page() -> str:
    """Return the page about errors that are retried, in Markdown."""
    rows = [
        f"| `{kind}` | {WHAT[kind]} | {_REPEATS[meaning.repeats]} | {_VERDICTS[meaning.verdict]} "
        f"| {'yes' if meaning.falls_back else 'no'} |"
        for kind, meaning in MEANINGS.items()
    ]
    return "\n".join(
        [
            "# Which errors are retried?",
            "",
            _MADE,
            "",
            "A tool is *retry-safe* with `effect=` `read`, `idempotent` or `keyed`; the default, `non_idempotent`, is not. "
            "What was certainly never sent is tried again for any tool. What may have happened all the same is tried again "
            "only for a retry-safe one, since nobody wants to pay twice.",
            "",
            "**An exception tells of one request.** A tool that makes two, and fails before the second was sent, has made "
            "the first all the same: give such a tool `classify=` or `retry=None`, or make two tools of it.",
            "",
            "| error type | what it is | tried again | the breaker | a fallback may answer |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Error types are a closed set: they are values of the attribute `error.type` and of "
            "`ToolCallFailed.error_type`.",
            "",
            "## How exceptions are told apart",
            "",
            "By the name of their class, so nothing is imported that your application does not import. A wrapped exception "
            "counts as what it wraps. Everything else may have happened and may pass: `transient`.",
            "",
            "| the exception | error type |",
            "| --- | --- |",
            *_class_rows(),
            "",
            "Errors that carry an HTTP status (httpx, requests, aiohttp, urllib, openai, anthropic, botocore) are told by it:",
            "",
            "| status | error type |",
            "| --- | --- |",
            *_status_rows(),
            "",
            "`Retry-After` is obeyed as seconds and as a date; garbage and negative numbers are ignored; more than "
            "`Retry(max_retry_after_seconds=60)` ends the call, and the model is told. AWS errors are told by their code "
            "first: throttling is `rate_limited`, missing rights are `denied`. SQLite's *locked* was certainly not applied.",
            "",
            "## You know better?",
            "",
            "```python",
            "import toolmend",
            "",
            "",
            "def judge(error):",
            '    if "out of stock" in str(error):',
            '        return "permanent"  # the model is told the message',
            "    return None  # as by default",
            "",
            "",
            '@toolmend.tool_call(effect="idempotent", classify=judge)',
            "def order(item: str) -> str:",
            '    return f"ordered {item}"',
            "",
            "",
            'assert order("tea") == "ordered tea"',
            "```",
            "",
        ]
    )


def _told(rule: Rule) -> str:
    if rule == NOT_SENT:
        return "`transient`, certainly not sent"
    if rule == AMBIGUOUS:
        return "`transient`, may have happened"
    if rule == MISHAP:
        return "`permanent`, may have happened"
    return f"`{rule.error_type}`"


def _class_rows() -> list[str]:
    grouped: dict[Rule, list[str]] = defaultdict(list)
    for name, rule in BY_CLASS.items():
        grouped[rule].append(name)
    return [
        "| "
        + ", ".join(f"`{name.removeprefix('builtins.')}`" for name in sorted(classes))
        + f" | {_told(rule)} |"
        for rule, classes in grouped.items()
    ]


def _status_rows() -> list[str]:
    grouped: dict[Rule, list[int]] = defaultdict(list)
    for status in _ALL_STATUSES:
        rule = rule_of_status(status)
        if rule != rule_of_status(_OTHER_CLIENT if status < _FIRST_SERVER else _OTHER_SERVER):
            grouped[rule].append(status)
    rows = [
        f"| {', '.join(map(str, sorted(statuses)))} | {_told(rule)} |"
        for rule, statuses in sorted(grouped.items(), key=lambda item: min(item[1]))
    ]
    return [
        *rows,
        f"| any other 4xx | {_told(rule_of_status(_OTHER_CLIENT))} |",
        f"| any other 5xx | {_told(rule_of_status(_OTHER_SERVER))} |",
    ]


def texts_page() -> str:
    """Return the page about what the model is told, in Markdown."""
    told = {
        kind: texts.text_for(
            failure,
            tool=_TOOL,
            attempts=3 if kind in ("timeout", "transient") else 1,
            is_outcome_unknown=kind == "outcome_unknown",
            timeout_seconds=10,
        )
        for kind, failure in _samples().items()
    }
    rows = [f"| `{kind}` | {text} |" for kind, text in told.items()]
    unknown = texts.text_for(
        Failure(error_type="transient"), tool=_TOOL, attempts=1, is_outcome_unknown=True
    )
    midway = texts.text_for(
        Failure(error_type="cancelled"), tool=_TOOL, attempts=1, is_outcome_unknown=True
    )
    return "\n".join(
        [
            "# What is the model told?",
            "",
            _MADE,
            "",
            "Every call gets exactly one result. Where it is not the tool's own, it says what the model can do about it, and "
            "nothing of exceptions, hosts or stack traces, but for what is about the argument itself.",
            "",
            "| error type | the result |",
            "| --- | --- |",
            *rows,
            "",
            "A tool that is not retry-safe, and whose effect may have happened all the same:",
            "",
            f"* after a failure: {unknown}",
            f"* cancelled while it ran: {midway}",
            "",
            "Results that are no failure:",
            "",
            f"* the tool returned `None`: {texts.NO_OUTPUT}",
            f"* a default value of a fallback: {texts.degraded('no rooms known', _TOOL).replace(chr(10), ' ')}",
            f"* a human was asked: {texts.escalated(_TOOL, 'T-17', 3600, 'go on without it.')}",
            f"* the budget of the run is spent: {texts.exhausted(_TOOL, 3)}",
            "",
            "Texts go out as they are, everything else as JSON; bytes that are no text as their length; more than 1,000,000 "
            "characters are cut, with a mark that says so (`Tools(max_result_chars=…)`).",
            "",
        ]
    )


def _samples() -> dict[ErrorType, Failure]:
    problem = "nights: 0 is less than the minimum of 1 [minimum]."
    messages: Mapping[ErrorType, str] = {
        "invalid_arguments": problem,
        "unknown_tool": texts.unknown_tool("book_rooms", [_TOOL, "find_room"]),
        "permanent": "There is no room 404.",
    }
    waits: Mapping[ErrorType, float] = {"rate_limited": 20.0, "breaker_open": 42.0}
    return {
        kind: Failure(
            error_type=kind,
            message=messages.get(kind, ""),
            retry_after_seconds=waits.get(kind),
        )
        for kind in WHAT
        if kind != "crashed"
    }


PAGES = {"retries.md": retries_page, "model-texts.md": texts_page}
"""The pages by name."""
