"""Detects by polling that a file was rewritten."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["FileWatch"]

_Seen = tuple[int, int, int] | None


class FileWatch:
    """Watches one file from construction on. Follows symbolic links, because mounted files may be
    replaced by changing a link."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = self._last = self._look()

    def changed(self) -> bool:
        """Return whether the file has changed and is complete.

        It is reported once it differs from the last reported version (or the initial one) and has
        stayed the same since the previous check, so that no half-written file is reported. Call
        once a second.
        """
        now = self._look()
        settled, self._last = now == self._last, now
        if not settled or now is None or now == self._taken:
            return False
        self._taken = now
        return True

    def _look(self) -> _Seen:
        try:
            found = os.stat(self._path)
        except OSError:
            return None  # The file is being replaced. The running program does not need it.
        return found.st_ino, found.st_mtime_ns, found.st_size
