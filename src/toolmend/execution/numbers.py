"""Numbers: what options take as a number, told from what only looks like one."""

from __future__ import annotations

import math
from typing import TypeGuard


def is_seconds(value: object, *, least: float | None = None) -> TypeGuard[float]:
    """Tell whether a value is a finite number above 0.

    Args:
        value: anything.
        least: the smallest number that will do, where it is another one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (value > 0 if least is None else value >= least) and value < math.inf


def is_count(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number from 1 up."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
