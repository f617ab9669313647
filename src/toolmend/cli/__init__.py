"""The command `toolmend`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from toolmend.errors import MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run the command; without its extra, say in one line how to get it.

    Exit codes: 0 for all is well, 1 for what could not be done, 2 for wrong usage, 130 for stopped.
    """
    if find_spec("typer") is None or find_spec("rich") is None:
        print(MissingExtraError("the command toolmend", "cli"), file=sys.stderr)
        raise SystemExit(1)
    from toolmend.cli.app import run  # noqa: PLC0415 - only there with the extra

    raise SystemExit(run())
