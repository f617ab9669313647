"""Write the pages that follow from the code: `python -m docs.generate [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docs.tool_pages import PAGES
from toolmend.formats import FORMATS
from toolmend.mending.findings import INFERRED_CAUSES, KINDS, RECORDED_CAUSES, counter_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent
PAGE = FOLDER / "repairs.md"

MEANINGS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "dangling_call": ("a call without a result", ("patched", "dropped")),
    "pending_call": ("a call that may still run, by the policy", ("left",)),
    "unanswerable_call": ("an open call for which no result can be made up", ("dropped",)),
    "nameless_call": ("a call without a function name", ("dropped",)),
    "duplicate_call": ("a copy of a call in the same turn", ("removed",)),
    "orphan_result": ("a result without a call", ("removed", "left")),
    "duplicate_result": ("a second result of a call", ("removed",)),
    "superseded_placeholder": ("a made-up result whose real one came in", ("removed",)),
    "misplaced_result": ("a real result in the wrong place", ("moved",)),
    "split_results": ("the results of one turn in several messages", ("merged",)),
    "mixed_result_turn": ("other content between the results of a turn", ("split",)),
    "wrong_result_type": ("a result of another kind or name than its call", ("retyped",)),
    "missing_id": ("an id that is missing or empty", ("renamed",)),
    "malformed_id": ("an id that the provider refuses", ("renamed",)),
    "reused_id": ("an id used again in a later turn", ("renamed",)),
    "colliding_id": ("one id for two calls of a turn", ("renamed",)),
    "invalid_arguments": ("arguments that are no JSON object", ("fixed",)),
    "orphan_reasoning": ("reasoning without what it led to", ("removed",)),
    "empty_message": ("a message or list that holds nothing", ("removed", "fixed")),
    "bad_first_turn": ("a beginning that may not come first", ("stubbed",)),
    "role_order": ("an order of roles that the provider or host refuses", ("merged", "bridged")),
    "unknown_role": ("a role that the format does not know", ("left",)),
}
"""Every kind: what it means, and what is done about it."""

_ALL = frozenset(FORMATS)
_BLOCKS = frozenset(("anthropic", "gemini", "bedrock"))
FOUND_IN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(KINDS, _ALL),
    "unanswerable_call": frozenset(("openai-responses",)),
    "split_results": _BLOCKS,
    "mixed_result_turn": frozenset(("gemini",)),
    "wrong_result_type": frozenset(("openai-responses", "gemini")),
    "reused_id": frozenset(("anthropic", "openai-responses")),
    "invalid_arguments": _ALL - {"langchain"},
    "orphan_reasoning": frozenset(("anthropic", "openai-responses")),
    "empty_message": _ALL - {"openai-responses"},
    "bad_first_turn": _BLOCKS,
    "role_order": _ALL - {"openai-responses"},
}
"""The formats in which a kind can be found."""

CAUSES: Mapping[str, str] = {
    "in_flight": "the policy says that it runs elsewhere",
    "server_tool": "the provider runs it",
    "invalid_arguments": "its arguments were cut off",
    "partial_batch": "another call of its turn has a result",
    "end_of_history": "nothing but results of its turn stands behind it",
    "interrupted": "the conversation went on without any result of its turn",
    "unknown": "none of these",
    "timeout": "the tool took too long",
    "cancelled": "the run was cancelled",
    "crashed": "the process ended",
    "breaker_open": "a circuit breaker let nothing through",
    "tool_error": "the tool failed",
    "result_lost": "the tool ended well, and its result never reached the history",
}

_HEAD = """\
# What is repaired, per format?

<!-- Made by `make docs` from the list of findings; changes here are lost. -->

`toolmend.check` tells the same findings as `Repair.findings`. Kinds, actions and causes are closed sets: they are values
of metrics, too. What is `left` is no repair: on its own the list comes back as it is.
"""


def repairs_page() -> str:
    """Return the page, in Markdown."""
    names = sorted(FORMATS)
    rows = [
        "| kind | what it is | action, counter |" + "".join(f" {name} |" for name in names),
        "| --- | --- | --- |" + " :-: |" * len(names),
    ]
    for kind in KINDS:
        meaning, actions = MEANINGS[kind]
        done = "<br>".join(_action(kind, action) for action in actions)
        marks = "".join(" ● |" if name in FOUND_IN[kind] else " |" for name in names)
        rows.append(f"| `{kind}` | {meaning} | {done} |{marks}")
    inferred = [f"| `{cause}` | {CAUSES[cause]} |" for cause in INFERRED_CAUSES]
    recorded = [f"| `{cause}` | {CAUSES[cause]} |" for cause in RECORDED_CAUSES]
    return "\n".join(
        [
            _HEAD,
            *rows,
            "",
            "`left` results without a call, bridges and joins depend on the [policy](policy.md).",
            "",
            "## Why a call has no result",
            "",
            "Read from the shape of the history; the first that fits counts:",
            "",
            "| cause | meaning |",
            "| --- | --- |",
            *inferred,
            "",
            "Known only to who ran the tool, and given as `causes=`:",
            "",
            "| cause | meaning |",
            "| --- | --- |",
            *recorded,
            "",
        ]
    )


def _action(kind: str, action: str) -> str:
    counter = counter_of(kind, action)
    return f"`{action}`" + (f", `{counter}`" if counter else "")


def main() -> int:
    """Write the pages that differ; with `--check` only say so."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    only_check = parser.parse_args().check
    pages = {PAGE: repairs_page, **{FOLDER / name: page for name, page in PAGES.items()}}
    differing = [
        path
        for path, page in pages.items()
        if not path.exists() or path.read_text("utf-8") != page()
    ]
    for path in differing:
        print(f"{'differs' if only_check else 'written'}: {path.relative_to(FOLDER.parent)}")
        if not only_check:
            path.write_text(pages[path](), "utf-8")
    return int(only_check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
