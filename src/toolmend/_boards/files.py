"""The files of boards and rules: where they are in a wheel and in a checkout, and how they are written out."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolmend.errors import ToolmendError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.abc import Traversable

BOARDS: Final = "boards"
"""The folder with the boards, one JSON file each."""
_FOLDERS: Final = {BOARDS: ".json", "rules": ".yml"}
_SINGLE: Final = ("TOOLMEND.md", "RUNBOOK.md")


class BoardFilesError(ToolmendError):
    """Boards and rules could not be found or not be written."""


def shipped() -> dict[str, str]:
    """Return every file of boards and rules: its path, as ``boards/toolmend-health.json``, and its text.

    Raises:
        BoardFilesError: this installation lacks them.
    """
    found = {path: file.read_text("utf-8") for path, file in _walk(_root())}
    return dict(sorted(found.items()))


def export(folder: Path, *, overwrite: bool = False) -> dict[Path, bool]:
    """Write all files below a folder, which is made if it is missing.

    Args:
        folder: where they go.
        overwrite: whether files that differ are replaced; else nothing at all is written.

    Returns:
        What lies there now, and whether it was written by this call.

    Raises:
        BoardFilesError: a file differs, or this installation lacks the files.
        OSError: the folder cannot be written.
    """
    wanted = {folder / path: text for path, text in shipped().items()}
    changed = {path for path, text in wanted.items() if path.exists() and _differs(path, text)}
    if changed and not overwrite:
        first = min(changed)
        others = f" and {len(changed) - 1} more differ" if len(changed) > 1 else " differs"
        raise BoardFilesError(
            f"{first}{others} from what this version of toolmend brings, and nothing was written; "
            "choose another folder, or replace with --force"
        )
    written = {}
    for parent in {path.parent for path in wanted}:
        if parent.exists() and not parent.is_dir():
            raise BoardFilesError(f"{parent} is not a folder; choose another one for the files")
    for path, text in wanted.items():
        written[path] = path in changed or not path.exists()
        if written[path]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
    return written


def _root() -> Traversable:
    """Return the folder with the files.

    A wheel brings them inside the package. An editable installation does not: there they are where
    they are made, at the top of the checkout.
    """
    packaged = files(__package__) / "files"
    checkout = Path(__file__).parents[3] / "dashboards"
    for root in (packaged, checkout):
        if (root / BOARDS).is_dir():
            return root
    raise BoardFilesError(
        "the boards are missing from this installation of toolmend; install it anew"
    )


def _walk(root: Traversable) -> Iterator[tuple[str, Traversable]]:
    for name in _SINGLE:
        if (root / name).is_file():
            yield name, root / name
    for folder, suffix in _FOLDERS.items():
        for file in (root / folder).iterdir():
            if file.name.endswith(suffix):
                yield f"{folder}/{file.name}", file


def _differs(path: Path, text: str) -> bool:
    return path.read_bytes().replace(b"\r\n", b"\n") != text.encode()
