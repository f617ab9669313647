"""The board *Tool-call health*: is the patch rate rising, since when, for whom, and why?"""

from __future__ import annotations

from typing import Any

from dashboards.generate.alerts import alerts_firing
from dashboards.generate.board import Line, Place, board
from dashboards.generate.health import severity, whom, work
from dashboards.generate.health.scope import UID, variables
from dashboards.generate.panels import note

_HOW_TO_READ = """\
**Patch rate** = tool calls that were found without a result, each counted once, ÷ tool calls that models asked for. \
It is a health signal of the **tool runtime**, not of the model: a call is left without a result when the tool timed \
out, was cancelled or crashed, or when the application lost what it had. toolmend mends the history, so users may \
notice nothing while this number rises.
**1.** *Patch rate* and *Against its own day*: is it worse than usual? **2.** *Patch rate and its past*: since when, \
and is there a blue line (a new version) at that moment? **3.** *Why*, *Which tool*, *Which model*, *Which thread*: \
for whom. **4.** A click on a row opens its traces or its logs. A high *Repeat share* says that the stored history \
keeps its hole: mend the store, not only the request.\
"""


def health() -> dict[str, Any]:
    """Return the board."""
    return board(
        UID,
        "Toolmend / Tool-call health",
        "Is the tool runtime getting worse, since when, for which model, thread and tool, and why?",
        variables(),
        [
            Line(
                height=4,
                places=[
                    Place(panel=severity.patch_rate(), width=4),
                    Place(panel=severity.against_its_day(), width=3),
                    Place(panel=severity.new_dangling(), width=3),
                    Place(panel=severity.mended_requests(), width=3),
                    Place(panel=severity.repeat_share(), width=3),
                    Place(panel=severity.rejections(), width=3),
                    Place(panel=alerts_firing(), width=2),
                    Place(panel=severity.faults(), width=3),
                ],
            ),
            Line(
                height=9,
                places=[
                    Place(panel=severity.patch_rate_and_its_past(), width=16),
                    Place(panel=severity.why(), width=8),
                ],
            ),
            Line(height=4, places=[Place(panel=note("How to read this", _HOW_TO_READ), width=24)]),
            Line(
                height=8,
                places=[
                    Place(panel=whom.which_tool(), width=12),
                    Place(panel=whom.which_model(), width=12),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=whom.which_thread(), width=12),
                    Place(panel=whom.which_thread_in_logs(), width=12),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=work.outcomes(), width=8),
                    Place(panel=work.what_was_done(), width=8),
                    Place(panel=work.repair_latency(), width=8),
                ],
            ),
            Line(height=9, places=[Place(panel=work.mended_calls(), width=24)]),
        ],
    )
