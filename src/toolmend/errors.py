"""Every error that toolmend raises on purpose.

::

    ToolmendError
    ├── HistoryError (also a ValueError)      a list of messages that cannot be read
    │   ├── UnrecognizedHistoryError          no wire format fits it
    │   └── MalformedHistoryError             one message of it has a shape no format knows
    ├── BrokenHistoryError                    mode="raise" met a history that needs repair
    ├── PolicyError (also a ValueError)       a setting that cannot work, found when it is given
    └── MissingExtraError (also an ImportError)  an optional part is not installed
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolmend.mending.findings import Finding


class ToolmendError(Exception):
    """Base of all errors of this library."""


class HistoryError(ToolmendError, ValueError):
    """A list of messages that cannot be read; nothing was changed."""


class UnrecognizedHistoryError(HistoryError):
    """No wire format fits the list."""


class MalformedHistoryError(HistoryError):
    """One message has a shape that no provider accepts and that cannot be mended.

    Attributes:
        format: the wire format the list was read in.
        index: position of the message in the list.
    """

    def __init__(self, message: str, *, format: str, index: int) -> None:
        super().__init__(message)
        self.format = format
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), format=self.format, index=self.index), self.args


class BrokenHistoryError(ToolmendError):
    """Raised instead of a repair under ``Policy(mode="raise")``.

    Attributes:
        findings: what is wrong, as ``toolmend.check`` tells it.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        repairs = [finding.kind for finding in findings if finding.action != "left"]
        kinds = ", ".join(sorted(set(repairs)))
        super().__init__(
            f"the history needs {len(repairs)} repair(s) ({kinds}); "
            'mend it with toolmend.repair() or use Policy(mode="repair")'
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.findings,)


class PolicyError(ToolmendError, ValueError):
    """A setting that cannot work, found when it is given and not when it is used."""


class MissingExtraError(ToolmendError, ImportError):
    """An optional part of toolmend is not installed.

    Attributes:
        feature: what was asked for.
        extra: the extra that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs an extra: pip install 'toolmend[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)
