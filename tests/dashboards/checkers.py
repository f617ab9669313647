"""The programs that read what the stack is made of: found, and asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

_SECONDS = 60.0


def find_checkers():
    """Return the folder of the checkers, or None: the variable, then what .ci/fetch-checkers has made."""
    if shutil.which("node") is None:
        return None
    if named := os.environ.get("TOOLMEND_CHECKERS"):
        return named if _is_whole(Path(named)) else None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolmend"
    made = [folder for folder in cache.glob("checkers-*") if _is_whole(folder)]
    return str(max(made, key=lambda folder: folder.stat().st_mtime)) if made else None


def parse(queries):
    """Read queries, pairs of language and text, by their grammars: for each, ``ok`` or what is wrong."""
    lines = [json.dumps({"lang": lang, "query": query}) for lang, query in queries]
    ended = _run(["node", str(Path(find_checkers()) / "parse.mjs")], "\n".join(lines))
    assert ended.returncode in (0, 1), ended.stderr
    answers = ended.stdout.splitlines()
    assert len(answers) == len(lines), ended.stdout
    assert (ended.returncode == 0) == all(answer == "ok" for answer in answers)
    return answers


def load_compose(file):
    """Read a compose file as the reference loader does.

    Returns:
        The project as it understands it.

    Raises:
        ValueError: It refuses the file; the message says why.
    """
    ended = _run([str(Path(find_checkers()) / "compose-check"), str(file)])
    if ended.returncode:
        raise ValueError(ended.stderr)
    return json.loads(ended.stdout)


def _is_whole(folder):
    return (folder / "parse.mjs").is_file() and os.access(folder / "compose-check", os.X_OK)


def _run(command, text=""):
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
