"""Replace a file as a whole: through a temporary file beside it, so that no half file is ever seen."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Self

if TYPE_CHECKING:
    from types import TracebackType


class Replacement:
    """A file that takes the place of another one when it is committed; a context manager.

    Without ``commit`` nothing is left behind. The mode of the replaced file is kept, and a
    symbolic link stays one: what it leads to is replaced.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.realpath(path))
        self._is_committed = False

    def __enter__(self) -> Self:
        handle, name = tempfile.mkstemp(
            prefix=f".{self._path.name[:40]}.", suffix=".tmp", dir=self._path.parent
        )
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb", buffering=1 << 20)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._file.close()
        if not self._is_committed:
            with suppress(OSError):
                self._temporary.unlink()

    def write(self, data: bytes) -> None:
        """Add bytes to the new file."""
        self._file.write(data)

    def commit(self) -> None:
        """Put the new file in the place of the old one.

        Raises:
            OSError: it cannot be written whole; the old one stays.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._take_mode()
        self._temporary.replace(self._path)
        self._is_committed = True

    def _take_mode(self) -> None:
        try:
            old = self._path.stat()
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            self._temporary.chmod(0o666 & ~mask)
            return
        if hasattr(os, "chown"):
            with suppress(OSError):  # only its owner's superuser may
                os.chown(self._temporary, old.st_uid, old.st_gid)
        self._temporary.chmod(stat.S_IMODE(old.st_mode))
