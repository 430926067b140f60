"""The directory where downloads are kept between runs, shared by all checkouts of one user."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_directory"]

CACHE_VARIABLE = "KAFKA_CONNECT_MIRROR_CACHE"


def cache_directory() -> Path:
    """Return `KAFKA_CONNECT_MIRROR_CACHE`, or this program's folder in the XDG cache directory.

    The directory is not created here.
    """
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).expanduser().absolute()
    # The XDG base directory specification: a relative value is invalid and is ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if xdg.startswith("/") else Path.home() / ".cache"
    return base / "kafka-connect-mirror"
