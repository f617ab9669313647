"""The board *Tool runtime*: are my tools working, which one is not, and why?"""

from __future__ import annotations

from typing import Any

from dashboards.generate.alerts import alerts_firing
from dashboards.generate.board import Line, Place, board
from dashboards.generate.panels import note
from dashboards.generate.runtime import breakers, errors, work
from dashboards.generate.runtime.scope import UID, variables

_HOW_TO_READ = """\
An **execution** is one call of a tool that `@toolmend.tool_call` guards, from the call to its result, retries and \
fallback included. It **fails** when it raises, is given up at its time limit (abandoned), or is answered by a fallback \
(degraded). A call that was cancelled says nothing about its tool.
**1.** *Error share* and *Breakers open*: are the tools working? **2.** *Which tool*, *Breakers*: which one is not; a \
click narrows the board to it. **3.** *Why they fail*: `timeout` and `transient` are about what the tool calls, \
`denied` and `gone` about its access, `invalid_arguments` about the model, `breaker_open` about the calls that the \
breaker spared. **4.** *Failed executions* and *Logs of failing tools*: one such call. What calls without a result did \
to the histories is on *Tool-call health*.\
"""


def runtime() -> dict[str, Any]:
    """Return the board."""
    return board(
        UID,
        "Toolmend / Tool runtime",
        "Are my tools working, which one is not, and why?",
        variables(),
        [
            Line(
                height=4,
                places=[
                    Place(panel=errors.error_share(), width=4),
                    Place(panel=errors.executions(), width=4),
                    Place(panel=errors.failures(), width=3),
                    Place(panel=breakers.breakers_open(), width=4),
                    Place(panel=work.still_running(), width=3),
                    Place(panel=work.fallbacks_used(), width=3),
                    Place(panel=alerts_firing(), width=3),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=errors.error_share_by_tool(), width=16),
                    Place(panel=errors.errors_by_type(), width=8),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=errors.which_tool(), width=12),
                    Place(panel=breakers.breakers(), width=12),
                ],
            ),
            Line(height=4, places=[Place(panel=note("How to read this", _HOW_TO_READ), width=24)]),
            Line(
                height=8,
                places=[
                    Place(panel=work.outcomes(), width=8),
                    Place(panel=work.duration(), width=8),
                    Place(panel=work.spread(), width=8),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=work.retries(), width=8),
                    Place(panel=work.fallbacks(), width=8),
                    Place(panel=work.abandoned(), width=8),
                ],
            ),
            Line(
                height=8,
                places=[
                    Place(panel=breakers.transitions(), width=12),
                    Place(panel=work.failed_executions(), width=12),
                ],
            ),
            Line(height=9, places=[Place(panel=work.failing_logs(), width=24)]),
        ],
    )
