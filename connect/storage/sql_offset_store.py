"""Source offsets of a standalone worker in a database: an SQLite file, or any SQLAlchemy URL such
as PostgreSQL's.

The store creates its table, `connect_source_offsets`, if it is missing:

    digest     32 bytes, SHA-256 of the key; primary key, as databases index only short values
    connector  text; the connector's name in the key, "" for keys that have none
    key        bytes, as `offset_codec` writes them
    value      bytes, likewise

Every `set` is one transaction. Several workers may share a database if their connectors have
different names.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    exc,
    make_url,
    select,
)

from connect.clock import Deadline
from connect.config.types import SecretStr
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, ConnectError, DeadlineExceeded, RetriableError
from connect.futures import done_future, run_into
from connect.storage.offset_codec import decode_key
from connect.storage.sql_engine import sql_engine

__all__ = ["OffsetDatabaseUnavailable", "SqlOffsetStore", "open_sql_offset_store"]

_log = logging.getLogger(__name__)

_FILE_KEY, _URL_KEY = "offset.storage.file.filename", "offset.storage.sql.url"
# The first bytes of files in Java's object serialization format.
_JAVA_SERIALIZED = b"\xac\xed"
# Old releases of SQLite accept at most 999 values in one statement.
_CHUNK = 500

_OFFSETS = Table(
    "connect_source_offsets",
    MetaData(),
    Column("digest", LargeBinary(32), primary_key=True),
    Column("connector", String, nullable=False, index=True),
    Column("key", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
)


class OffsetDatabaseUnavailable(RetriableError):
    """The offset database is unreachable or locked at the moment."""


def open_sql_offset_store(config: WorkerConfig) -> SqlOffsetStore:
    """Return the store configured for a standalone worker, not started. Raises `ConfigError`."""
    if config.offset_storage_sql_url is not None:
        return SqlOffsetStore.at_url(config.offset_storage_sql_url)
    if config.offset_storage_file is None:
        raise ConfigError(
            f'Missing required configuration "{_FILE_KEY}" which has no default value.',
            key=_FILE_KEY,
        )
    return SqlOffsetStore.in_file(Path(config.offset_storage_file))


class SqlOffsetStore:
    """An `OffsetStore` in a database. A separate thread writes in order."""

    def __init__(self, url: URL) -> None:
        self._name = url.render_as_string(hide_password=True)
        self._engine = sql_engine(url)
        self._writes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="offset-database", daemon=True)

    @classmethod
    def in_file(cls, path: Path) -> SqlOffsetStore:
        """Return a store in an SQLite file, which is created if missing.

        Raises `ConfigError` for files written by Java.
        """
        try:
            with path.open("rb") as stream:
                start = stream.read(len(_JAVA_SERIALIZED))
        except FileNotFoundError:
            start = b""
        except OSError as error:
            raise ConfigError(
                f"Invalid value {path} for configuration {_FILE_KEY}: {error.strerror}",
                key=_FILE_KEY,
            ) from error
        if start == _JAVA_SERIALIZED:
            raise ConfigError(
                f"Invalid value {path} for configuration {_FILE_KEY}: a Java worker wrote this"
                f" file in Java's own serialization format; set another path. To continue from"
                f" its offsets, list them with the Java worker's REST API and alter them here",
                key=_FILE_KEY,
            )
        return cls(URL.create("sqlite", database=str(path)))

    @classmethod
    def at_url(cls, url: SecretStr) -> SqlOffsetStore:
        """Return a store at an SQLAlchemy URL. Raises `ConfigError`."""
        try:
            return cls(make_url(url.reveal()))
        except (exc.ArgumentError, exc.NoSuchModuleError, ImportError) as error:
            # The error text contains at most a driver's name, and never a URL that cannot be
            # parsed.
            reason = "not a URL" if isinstance(error, exc.ArgumentError) else str(error)
            raise ConfigError(
                f"Invalid value [hidden] for configuration {_URL_KEY}: {reason}; use a URL like"
                f" postgresql+psycopg://user:password@host/database, and install the driver's"
                f" package (psycopg)",
                key=_URL_KEY,
            ) from error

    def start(self, deadline: Deadline) -> None:
        """Create the table. Raises `OffsetDatabaseUnavailable`."""
        with self._translated("Opening"), self._engine.begin() as connection:
            _OFFSETS.create(connection, checkfirst=True)
        self._thread.start()

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        wanted = [_digest(key) for key in keys]
        found: dict[bytes, bytes] = {}
        with self._translated("Reading"), self._engine.connect() as connection:
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                rows = connection.execute(
                    select(_OFFSETS.c.key, _OFFSETS.c.value).where(_OFFSETS.c.digest.in_(chunk))
                )
                found.update((bytes(row.key), bytes(row.value)) for row in rows)
                if deadline.expired() and start + _CHUNK < len(wanted):
                    raise DeadlineExceeded(f"Reading offsets from {self._name} took too long")
        return found

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        if not values:
            return done_future(None)
        stored: Future[None] = Future()

        def write() -> None:
            with self._translated("Writing"):
                self._write(values)

        with self._lock:
            if self._stopping or self._thread.ident is None:
                stored.set_exception(ConnectError(f"The offset store {self._name} is not open"))
            else:
                self._writes.put(lambda: run_into(stored, write))
        return stored

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        with self._translated("Reading"), self._engine.connect() as connection:
            rows = connection.execute(
                select(_OFFSETS.c.key).where(_OFFSETS.c.connector == connector)
            )
            return frozenset(bytes(row.key) for row in rows)

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        """Return no marks: rows have no order of writes."""
        return {}

    def stop(self, deadline: Deadline) -> None:
        with self._lock:
            self._stopping = True
            self._writes.put(None)
        if self._thread.ident is not None:
            self._thread.join(deadline.remaining())
            if self._thread.is_alive():
                _log.error(
                    "Writing offsets to %s did not finish in time and is abandoned: records "
                    "since the last stored offsets come again. Look after the database",
                    self._name,
                )
        self._engine.dispose()

    def _main(self) -> None:
        """Write to the database. Runs as the writing thread."""
        while (write := self._writes.get()) is not None:
            write()

    def _write(self, values: Mapping[bytes, bytes | None]) -> None:
        digests = [_digest(key) for key in values]
        rows = [_row(key, value) for key, value in values.items() if value is not None]
        with self._engine.begin() as connection:
            for start in range(0, len(digests), _CHUNK):
                chunk = digests[start : start + _CHUNK]
                connection.execute(delete(_OFFSETS).where(_OFFSETS.c.digest.in_(chunk)))
            if rows:
                connection.execute(_OFFSETS.insert(), rows)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Convert SQLAlchemy's errors to ours, without the parameters of statements."""
        try:
            yield
        except exc.OperationalError as error:
            raise OffsetDatabaseUnavailable(
                f"{doing} the offsets in {self._name} failed: {error.orig}"
            ) from error
        except exc.SQLAlchemyError as error:
            raise ConnectError(f"{doing} the offsets in {self._name} failed: {error}") from error


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _row(key: bytes, value: bytes) -> dict[str, Any]:
    decoded = decode_key(key)
    connector = "" if decoded is None else decoded[0]
    return {"digest": _digest(key), "connector": connector, "key": key, "value": value}
