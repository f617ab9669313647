"""The board of a demo: the numbers at the foot of a terminal, while it runs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.rule import Rule
from rich.text import Text

from toolmend._demo.phases import PHASES
from toolmend._demo.report import PhaseRow, patch_rate
from toolmend.cli.demo_lines import PHASE_STYLES, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolmend._demo.events import TurnEnded
    from toolmend._demo.report import Report

_BARS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = " .:-=+*#%@"
_SHOWN_TURNS: Final = 40
_TRACK: Final = 24


class Board:
    """What is known so far.

    Args:
        is_unicode: whether the terminal can show bars.
    """

    def __init__(self, *, is_unicode: bool) -> None:
        self._bars = _BARS if is_unicode else _PLAIN_BARS
        self._filled, self._empty = ("█", "░") if is_unicode else ("#", "-")
        self._phase: str | None = None
        self._rows: dict[str, PhaseRow] = {}
        self._rates: deque[tuple[float, str]] = deque(maxlen=_SHOWN_TURNS)
        self._turn = 0
        self._turns = 1
        self.report: Report | None = None

    def begin_phase(self, name: str) -> None:
        """Note that a phase began."""
        self._phase = name

    def end_phase(self, row: PhaseRow) -> None:
        """Note the numbers of a phase."""
        self._rows[row.name] = row

    def end_turn(self, event: TurnEnded) -> None:
        """Note the numbers of a turn."""
        self._turn, self._turns = event.turn + 1, event.turns
        rate = patch_rate(event.dangling, event.requested) or 0.0
        self._rates.append((rate, self._phase or ""))

    def __rich__(self) -> RenderableType:
        report = self.report
        lines: list[RenderableType] = [Rule(style="dim", characters="-"), self._phase_line()]
        rate = Text("patch rate  ", "bold")
        for value, phase in self._rates:
            rate.append(self._bar(value), PHASE_STYLES.get(phase))
        if self._rates:
            rate.append(f"  {percent(self._rates[-1][0])} this turn")
        if report is not None and report.requests:
            rate.append(f", {percent(patch_rate(report.firsts, report.requested))} overall")
            lines += [rate, _calls_line(report), _requests_line(report)]
        else:
            lines += [rate, Text("tool calls", "bold"), Text("requests", "bold")]
        return Group(*lines)

    def _bar(self, rate: float) -> str:
        return self._bars[max(1, round(rate * (len(self._bars) - 1)))]

    def _phase_line(self) -> Text:
        text = Text()
        for phase in PHASES:
            style = PHASE_STYLES[phase.name]
            row = self._rows.get(phase.name)
            number = f" {percent(row.rate)}" if row else ""
            if phase.name == self._phase and row is None:
                text.append(f"[{phase.name}]", f"bold reverse {style}")
            else:
                text.append(f"{phase.name}{number}", style if row else "dim")
            text.append("  ")
        filled = _TRACK * self._turn // self._turns
        text.append(self._filled * filled, PHASE_STYLES.get(self._phase or ""))
        text.append(self._empty * (_TRACK - filled), "dim")
        text.append(f" {self._turn}/{self._turns}")
        return text


def _calls_line(report: Report) -> Text:
    return Text.assemble(
        ("tool calls  ", "bold"),
        f"{report.requested} requested, ",
        (f"{report.firsts} without a result", "yellow"),
        f", {report.repeats} mended again",
    )


def _requests_line(report: Report) -> Text:
    refused = report.refused_all_the_same
    return Text.assemble(
        ("requests    ", "bold"),
        f"{report.requests} sent, ",
        (f"{report.refused} refused without toolmend", "yellow"),
        ", ",
        (f"{refused} refused with it", "bold red" if refused else "green"),
    )
