"""Logging of the command-line programs: one line per event on stderr."""

from __future__ import annotations

import logging
import sys

from connect.config.secrets import without_secrets

__all__ = ["configure_logging"]

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s (%(name)s)"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"

CHATTY = ("kafka", "uvicorn", "asyncio")
"""Libraries whose progress messages do not help operators; their warnings are kept."""


class _Redacting(logging.Formatter):
    """Removes all known secrets from the finished text, tracebacks included. Levels that are set
    while the program runs do not touch it."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def configure_logging(level: int = logging.INFO) -> None:
    """Send log messages of `level` and above to stderr. Call once, at the start of a program."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting(FORMAT, TIME_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
