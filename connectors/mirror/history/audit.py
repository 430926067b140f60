"""Records who asked a worker's REST API for which change, in the history database.

Only a worker whose properties name the database (`mirror.history.url`) does so. Rows hold no bodies
and no query, which may contain secrets.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigDef
from connectors.mirror.config.loss_policies import HISTORY_KEYS, RETENTION_KEY, URL_KEY
from connectors.mirror.history.database import History, open_history

__all__ = ["AuditTrail", "open_trail"]


class AuditTrail:
    """Adds rows to `mirror_audit`. Safe to use from any thread; the owner calls `close` once."""

    def __init__(self, history: History) -> None:
        self._history = history

    def add(self, user: str, address: str, method: str, path: str, status: int) -> None:
        """Queue a row and return at once."""
        row = {"user": user[:255], "address": address[:64], "method": method[:16]}
        self._history.queue("mirror_audit", {**row, "path": path[:500], "status": status})

    def close(self) -> None:
        """Write the queued rows, within seconds."""
        self._history.close()


def open_trail(worker: Mapping[str, str]) -> AuditTrail | None:
    """Return the trail of a worker with these properties; None if they name no history. Raises
    `ConfigError` for an invalid URL."""
    if not worker.get(URL_KEY, "").strip():
        return None
    parsed = ConfigDef(HISTORY_KEYS).parse(worker)
    url = parsed.secret(URL_KEY)
    history = None if url is None else open_history(url, parsed.integer(RETENTION_KEY))
    return None if history is None else AuditTrail(history)
