"""The lines of a demo: its opening, what was mended, and the numbers of each phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from toolmend._demo.cast import MODELS, ROLES, TOOLS
from toolmend._demo.opening import HISTORY

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolmend._demo.events import Mended, Refused
    from toolmend._demo.opening import Opening
    from toolmend._demo.phases import Phase
    from toolmend._demo.report import PhaseRow

PHASE_STYLES: Final = {
    "healthy": "green",
    "flaky": "yellow",
    "broken": "red",
    "recovery": "cyan",
}
_HEADS: Final = ("phase", "user", "model", "tool", "what broke: cause", "mend, next answer")
_WIDTHS: Final = (8, 4, 11, 9, 26, 0)


def percent(rate: float | None) -> str:
    """Return a share as a text."""
    return "-" if rate is None else f"{100 * rate:.0f}%"


def opening_lines(opening: Opening) -> list[RenderableType]:
    """Return the opening: one broken history, and what becomes of it."""
    history = Table.grid(padding=(0, 2))
    for message in HISTORY:
        history.add_row(Text(str(message["role"]), "bold"), _content(message))
        if message.get("tool_calls"):
            history.add_row("", Text("(no result was stored: the tool timed out)", "red"))
    outcome = Table.grid(padding=(0, 2))
    outcome.add_column(no_wrap=True)
    outcome.add_column(no_wrap=True)
    outcome.add_column()
    outcome.add_row(
        Text("sent as it is", "bold"), Text(str(opening.status), "red"), Text(opening.refusal)
    )
    mended = Text.assemble(
        'The call got a result: "',
        (opening.placeholder, "italic"),
        '" The model answers: "',
        (opening.answer, "green"),
        '"',
    )
    outcome.add_row(Text("with toolmend", "bold"), Text("200", "green"), mended)
    return [
        Text("toolmend demo", "bold"),
        Text(""),
        Text("A tool timed out, and the user wrote again. This is the history now:"),
        Text(""),
        Padding(history, (0, 0, 0, 2)),
        Text(""),
        outcome,
        Text(""),
    ]


def _content(message: dict[str, Any]) -> Text:
    if not message.get("tool_calls"):
        return Text(message["content"])
    [call] = message["tool_calls"]
    return Text(f"calls {call['function']['name']} {call['function']['arguments']}  ({call['id']})")


def play_lines(clients: str) -> list[RenderableType]:
    """Return what there is to know before the first phase."""
    return [
        Text(
            f"Now {len(ROLES)} users at once, each in a thread of their own, with {len(MODELS)} "
            f"models and {len(TOOLS)} tools, through {clients}. Each line is a tool call that "
            "broke, and how the next request was mended."
        ),
    ]


def phase_lines(phase: Phase) -> list[RenderableType]:
    """Return the title of a phase."""
    style = PHASE_STYLES[phase.name]
    title = Text.assemble((phase.name, f"bold {style}"), f": {phase.story}")
    return [Text(""), Rule(title, align="left", style=style, characters="-")]


def heads_line() -> Text:
    """Return what stands above the mends."""
    heads = (head.ljust(width) for head, width in zip(_HEADS, _WIDTHS, strict=True))
    return Text(" ".join(heads).rstrip(), "dim")


def mended_line(event: Mended) -> Text:
    """Return one mend; its next answer was accepted, or it would not be told."""
    cause = f": {event.cause}" if event.cause else ""
    cells = (event.phase, event.thread, event.model, event.tool, f"{event.trouble}{cause}")
    text = Text(no_wrap=True, overflow="ignore")
    for cell, width in zip(cells, _WIDTHS, strict=False):
        text.append(f"{cell:<{width}} ", PHASE_STYLES.get(cell))
    text.append(f"{event.action}, ")
    text.append("accepted", "green")
    return text


def refused_line(event: Refused) -> Text:
    """Return a request that was refused all the same."""
    return Text(f"{event.phase} {event.thread} {event.model} REFUSED: {event.message}", "bold red")


def phase_end_lines(row: PhaseRow) -> list[RenderableType]:
    """Return the numbers of a phase."""
    numbers = Text.assemble(
        ("patch rate ", "bold"),
        (percent(row.rate), f"bold {PHASE_STYLES[row.name]}"),
        f": {row.firsts} of {row.requested} tool calls without a result; "
        f"{row.mended} of {row.requests} requests mended",
    )
    if not row.repeats:
        return [numbers]
    repeats = f"and {row.repeats} repeats: older calls, still without a result in their store"
    return [numbers, Text(repeats, "dim")]
