"""Opens databases with SQLAlchemy: with timeouts, and no parameters of statements in errors."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine

__all__ = ["sql_engine"]

# A commit of offsets has 5 s by default; a longer lock belongs to another program.
_LOCK_TIMEOUT_S = 5
_CONNECT_TIMEOUT_S = 10
_STATEMENT_TIMEOUT_MS = 30_000


def sql_engine(url: URL) -> Engine:
    """Return an engine for this database, which connects when it is first used."""
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "sqlite":
        arguments = {"timeout": _LOCK_TIMEOUT_S}
    elif url.get_driver_name() in ("psycopg", "psycopg2"):
        arguments = {
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "options": f"-c statement_timeout={_STATEMENT_TIMEOUT_MS}",
        }
    return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments)
