"""Reads files that a connector's config may name, in bounded time and memory.

Any user that may validate a config chooses their paths: a pipe would be read without end, and a
device or a huge file would fill the memory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["read_regular_file"]

_LARGEST = 8 << 20
"""As large as the largest body of a request."""


def read_regular_file(path: Path) -> bytes:
    """Return the content of a file. Raises `OSError`, also if it is larger than 8 MiB or is not a
    regular file."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is no regular file")
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        content = file.read(_LARGEST + 1) or b""
    if len(content) > _LARGEST:
        raise OSError(f"it is larger than {_LARGEST >> 20} MiB")
    return content
