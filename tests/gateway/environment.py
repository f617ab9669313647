"""The environment that has LiteLLM's proxy in it: found, and run in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 600.0


def find_litellm():
    """Return the Python of that environment, or None: the variable, then what .ci/build-litellm has made."""
    if named := os.environ.get("TOOLMEND_LITELLM"):
        return named if Path(named).is_file() else None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolmend"
    made = [stamp.parent for stamp in cache.glob("litellm-*/made")]
    newest = max(made, key=lambda home: (home / "made").stat().st_mtime, default=None)
    return str(newest / "bin/python") if newest else None


def run_tests():
    """Run the tests of this folder there, on the source of this clone."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "OTEL_", "TOOLMEND_"))
    }
    return subprocess.run(
        [find_litellm(), "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "tests/gateway"],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
