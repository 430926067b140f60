"""Unpacking of tar archives that the tests make or check by their hash."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, directory: Path) -> None:
    """Extract `archive` into `directory`, by the rules of PEP 706 where this Python has them.

    Python 3.11.0 to 3.11.3 have no filters, and no argument for one.
    """
    safe = getattr(tarfile, "data_filter", None)
    if safe is not None:
        archive.extraction_filter = safe
    archive.extractall(directory)
