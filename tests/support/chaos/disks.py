"""Small disks for brokers, which can be filled: tmpfs, one for each node."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

from connect.errors import ConnectError

__all__ = ["Disk"]

_TIMEOUT_S = 30.0
_FILLER = "filler"
_STEP = 64 * 1024


class Disk:
    """A directory of its own size. Needs the right to mount."""

    def __init__(self, directory: Path, size_mb: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(directory))

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        if done.returncode:
            raise ConnectError(f"{' '.join(command)}: {done.stderr.strip()}")

    @property
    def free_bytes(self) -> int:
        facts = os.statvfs(self.directory)
        return facts.f_bavail * facts.f_frsize

    def fill(self) -> None:
        """Take all the room that is left."""
        chunk = bytes(_STEP)
        with (self.directory / _FILLER).open("ab", buffering=0) as stream:
            while True:
                try:
                    stream.write(chunk)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def empty(self) -> None:
        """Give the room back."""
        (self.directory / _FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        self._run("umount", "-l", str(self.directory))
