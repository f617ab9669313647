"""Ids of cases: the same in every process, so that workers collect the same tests."""

from __future__ import annotations

import re


def stable(value: object) -> str:
    """Return what a value looks like, without addresses in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
