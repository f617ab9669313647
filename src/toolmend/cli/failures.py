"""Failures: one line that says what to do, and an exit code."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


def fail(message: str, code: int = USAGE) -> NoReturn:
    """Print one line on standard error and exit."""
    print(f"toolmend: {message}", file=sys.stderr)
    raise SystemExit(code)
