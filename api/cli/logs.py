"""Logging of the command-line programs: one clear line each on stderr."""

from __future__ import annotations

import logging
import sys

__all__ = ["configure_logging"]

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"

CHATTY = ("kafka", "uvicorn", "asyncio")
"""Libraries whose progress reports are of no use to operators; their warnings are."""


def configure_logging(level: int = logging.INFO) -> None:
    """Send the log to stderr, from `level` on. Called once, by a program's entry."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
