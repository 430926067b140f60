"""A file with a line for every request that asked for a change (`rest.audit.log.file`).

It has all of them, whatever the level of the log, which also only counts lines that are repeated.
Lines hold no bodies and no query, which may contain secrets.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.definition import ConfigDef
from connect.config.rest_access_keys import AUDIT_FILE, REST_ACCESS_KEYS
from connect.config.types import invalid_value

__all__ = ["AuditFile", "open_audit_file"]

_log = logging.getLogger(__name__)


class _Lines(WatchedFileHandler):
    """Appends lines. A file that was renamed or deleted is created again, as rotation needs it."""

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")
        self._failed = False

    def _open(self) -> TextIOWrapper:
        def create(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", opener=create)

    def write(self, line: str) -> None:
        """Append a line. An error is logged once, until writing succeeds."""
        self.handle(logging.makeLogRecord({"msg": line}))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.reopenIfNeeded()
            if self.stream is None:
                return  # It was closed.
            self.stream.write(f"{record.getMessage()}\n")
            self.stream.flush()
        except (OSError, ValueError) as error:
            if not self._failed:
                _log.error(
                    "%s: cannot write to %s; changes are missing there until its directory can be"
                    " written: %s",
                    AUDIT_FILE,
                    self.baseFilename,
                    error,
                )
            self._failed = True
        else:
            self._failed = False


class AuditFile:
    """Adds lines to the file. Safe to use from any thread; the owner calls `close` once."""

    def __init__(self, path: str, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open the file; only its owner can read a new one. Raises `OSError`."""
        self._clock = clock
        self._lines = _Lines(path)

    def add(self, user: str, address: str, method: str, path: str, status: int) -> None:
        """Append a line, one JSON object."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds"),
            "user": user,
            "address": address,
            "method": method,
            "path": path,
            "status": status,
        }
        self._lines.write(json.dumps(line))

    def close(self) -> None:
        self._lines.close()


def open_audit_file(worker: Mapping[str, str]) -> AuditFile | None:
    """Return the file of a worker with these properties; None if they name none. Raises
    `ConfigError` for a file that cannot be written."""
    path = ConfigDef(REST_ACCESS_KEYS).parse(worker).optional_string(AUDIT_FILE)
    if not path:
        return None
    try:
        return AuditFile(path)
    except OSError as error:
        raise invalid_value(AUDIT_FILE, path, f"cannot be written: {error.strerror}") from error
