"""One history explained: call by call, and what a provider would answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolmend._histories.walk import CallLine, walk
from toolmend.cli.history_screen import printable
from toolmend.cli.history_words import explanation
from toolmend.testing import problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend._histories.judged import Judged
    from toolmend.mending.findings import Finding


def explained(judged: Judged) -> Iterator[str]:
    """Yield the lines about a history, indented: its calls, its other faults, the provider's answer."""
    walked = walk(judged)
    for call in walked.calls:
        yield f"  turn {call.turn}, messages[{call.index}]: {_name(call)}: {_result(call)}"
        yield from _findings(call.findings)
    for finding in walked.others:
        where = f"messages[{finding.index}]" if finding.index >= 0 else "messages"
        named = f" {printable(finding.call_id)}" if finding.call_id is not None else ""
        yield f"  {where}:{named}"
        yield from _findings((finding,))
    answer = provider_answer(judged)
    if answer is not None:
        yield f"  a provider answers 400: {answer}"


def provider_answer(judged: Judged) -> str | None:
    """Return what a provider says to a history; None when it takes it, or when its words are not known."""
    if judged.is_legal:
        return None
    try:
        found = problems(
            judged.messages,
            format=judged.format,  # type: ignore[arg-type]  # one it does not know is an error
            allow_open_tail=judged.policy.trailing == "leave",
            profile=judged.policy.profile,
            max_id_len=judged.policy.max_id_len,
            strict_alternation=judged.policy.strict_alternation,
            server_state=bool(judged.policy.server_state),
        )
    except (ValueError, TypeError):
        return None
    return printable(found[0].message, longest=1000) if found else None


def _name(call: CallLine) -> str:
    tool = printable(call.tool_name) or "(no tool)"
    return f"{tool} {printable(call.call_id)}" if call.call_id is not None else f"{tool} (no id)"


def _result(call: CallLine) -> str:
    if not call.results:
        return "no result"
    return "result in " + ", ".join(f"messages[{index}]" for index in call.results)


def _findings(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        wrong, mend = explanation(finding)
        yield f"    {wrong}"
        yield f"    a repair {mend}"
