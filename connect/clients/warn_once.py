"""Warnings that are logged once per process, no matter how many clients are created."""

from __future__ import annotations

import logging
import threading

__all__ = ["warn_once"]

log = logging.getLogger("connect.clients")

_lock = threading.Lock()
_seen: set[str] = set()


def warn_once(key: str, message: str) -> None:
    """Log `message` as a warning, unless a message for `key` was logged before. Thread-safe."""
    with _lock:
        if key in _seen:
            return
        _seen.add(key)
    log.warning("%s", message)
