"""Stores the history in a database: losses and other events, copied ranges, lag.

The mirror's own state is in Kafka; the history is for people, audits and dashboards.
`mirror.history.url` names any database that SQLAlchemy supports, for example PostgreSQL. The
default is an SQLite file for each flow, which the processes of a host share.

Rows are queued without waiting. One thread per database and process writes them. If the database is
slow or unreachable, rows are kept up to a limit and then dropped; the log says how many. Rows hold
names, numbers and our own sentences, so they contain no secrets.

The tables are created if they are missing (times in ms since 1970):

    mirror_events   losses, re-created topics, quarantined records, stalled partitions, changes
    mirror_ranges   source offsets that are on the target: a row per partition and commit
    mirror_lags     lag of each partition at the same moments
    mirror_samples  rate, lag and latency of each task as a whole
    mirror_jobs     progress of backfills, audits, archives and restores
    mirror_audit    changes that somebody asked a worker's REST API for (`audit.py`)

`connectors.mirror.history.upkeep` merges old rows.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.config.types import SecretStr
from connect.errors import ConfigError
from connect.loop import Backoff
from connectors.mirror.config.history_url import (
    default_history_directory,
    default_history_files,
    is_off,
)
from connectors.mirror.config.loss_policies import URL_KEY
from connectors.mirror.history.rows import (
    CopiedRow,
    EventRow,
    FlowTask,
    HistoryRow,
    JobRow,
    LagRow,
    SampleRow,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Select

__all__ = [
    "UPKEEP_EVERY_S",
    "History",
    "check_history",
    "newest_events",
    "open_history",
    "read",
    "read_events",
    "reading",
    "sqlite_file",
    "there_is",
]

_LOG = logging.getLogger(__name__)


_MOST_WAITING = 20_000
"""Maximum number of queued rows: about 10 MB. A flow of 1,000 partitions writes 2,000 a minute."""
_CHUNK = 500
_RETRY_FIRST_S, _RETRY_MOST_S = 1.0, 60.0
_CLOSE_S = 2.0
"""Timeout of `close`. A stopping task has 5 s for everything
(task.shutdown.graceful.timeout.ms)."""
UPKEEP_EVERY_S = 600.0
_DAY_MS = 24 * 3600 * 1000
_INSTALL = "pip install 'kafka-connect-mirror[postgresql]'"


_TABLE_OF: Mapping[type, str] = {
    EventRow: "mirror_events",
    CopiedRow: "mirror_ranges",
    LagRow: "mirror_lags",
    SampleRow: "mirror_samples",
    JobRow: "mirror_jobs",
}


def open_history(url: SecretStr, retention_days: int) -> History | None:
    """Open the history at this URL; None if it is disabled.

    It is shared in this process, and each caller must `close` it once. Raises ConfigError for an
    invalid URL.
    """
    if is_off(url):
        return None
    key = url.reveal()
    with _SHARED_LOCK:
        shared = _SHARED.get(key)
        if shared is None:
            shared = _SHARED[key] = History(key, retention_days)
        shared.users += 1
        return shared


_SHARED: dict[str, History] = {}
_SHARED_LOCK = threading.Lock()


def read_events(
    url: SecretStr | None, limit: int, flows: Sequence[tuple[str, str]] | None = None
) -> list[dict[str, Any]]:
    """Read the newest events, oldest first, each with the columns of `mirror_events`. Without a
    URL, of all default files. `flows`: only those of these flows, each (source, target). Raises
    ConfigError if there is no history."""
    from sqlalchemy import and_, or_, select

    from connectors.mirror.history.tables import TABLES

    table = TABLES.tables["mirror_events"]
    newest = select(table).order_by(table.c.at_ms.desc(), table.c.id.desc()).limit(limit)
    if flows is not None:
        newest = newest.where(
            or_(*(and_(table.c.source == a, table.c.target == b) for a, b in flows))
        )
    if url is not None:
        return read(url, newest)[::-1]
    files = default_history_files()
    if not files:
        raise ConfigError(
            f"There is no history in {default_history_directory()}. Set --url to the URL of the "
            "history database"
        )
    found = [row for each in files for row in read(SecretStr(f"sqlite:///{each}"), newest)]
    return newest_events(found, limit)


def newest_events(events: Iterable[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the newest of these events, oldest first."""
    return sorted(events, key=lambda row: (row["at_ms"], row["id"]))[-limit:]


def there_is(url: SecretStr) -> bool:
    """Whether there may be a history at this URL: it is not disabled, and a default file exists."""
    if is_off(url):
        return False
    file = sqlite_file(url)
    default = file is not None and file.parent == default_history_directory()
    return not default or (file is not None and file.exists())


def check_history(props: Mapping[str, str]) -> None:
    """Raise ConfigError if a connector's properties name a history by what is no URL of a database,
    or by one whose driver is not installed."""
    url = SecretStr(props.get(URL_KEY, "").strip())
    if not is_off(url):
        _parsed(url.reveal())


def sqlite_file(url: SecretStr) -> Path | None:
    """Return the file of an SQLite database; None for other databases, and for one in memory."""
    name = _parsed(url.reveal()).database if url.reveal().startswith("sqlite") else None
    return Path(name) if name and name != ":memory:" else None


def read(url: SecretStr, *queries: Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of all queries, one after the other. Raises ConfigError if the history
    cannot be read."""
    with reading(url) as connection:
        return [dict(row._mapping) for query in queries for row in connection.execute(query)]


@contextmanager
def reading(url: SecretStr) -> Iterator[Connection]:
    """Connect to the database for the block. Raises ConfigError if the history cannot be read."""
    from sqlalchemy import exc

    engine = _engine(_parsed(url.reveal()))
    try:
        with engine.connect() as connection:
            yield connection
    except exc.SQLAlchemyError as error:
        raise ConfigError(f"Cannot read the history: {_without_url(error)}") from error
    finally:
        engine.dispose()


class History:
    """Writes rows on its own thread. `add` may be called from any thread."""

    def __init__(self, url: str, retention_days: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.users = 0
        self._key = url
        self._url = _parsed(url)
        self._retention_ms = retention_days * _DAY_MS
        self._clock = clock
        self._process = f"{socket.gethostname()}:{os.getpid()}"
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._closing = False
        self._clean_at = 0.0
        self._thread = threading.Thread(target=self._main, name="mirror-history", daemon=True)
        self._thread.start()

    def add(self, flow: FlowTask, row: HistoryRow) -> None:
        """Queue a row and return at once."""
        task = {"connector": flow.connector, "task": flow.task}
        clusters = {"source": flow.source, "target": flow.target}
        self.queue(_TABLE_OF[type(row)], {**task, **clusters, **asdict(row)})

    def queue(self, table: str, columns: Mapping[str, Any]) -> None:
        """Queue a row of a table, with the time and the process, and return at once."""
        values = {"at_ms": self._clock.now_ms(), "process": self._process, **columns}
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self._dropped += 1
                return
            self._waiting.append((table, values))
            self._changed.notify()

    def close(self) -> None:
        """Close one use. The last close writes the queued rows, within seconds."""
        with _SHARED_LOCK:
            self.users -= 1
            if self.users > 0:
                return
            if _SHARED.get(self._key) is self:
                del _SHARED[self._key]
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            _LOG.warning(
                "The history database does not answer, so the last rows of the history "
                "are lost; nothing that is copied is affected. Look after the database"
            )

    # Methods of the writing thread.

    def _main(self) -> None:
        engine: Engine | None = None
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MOST_S)
        complained = False
        try:
            while self._wait_for_rows():
                rows = self._first_rows()
                try:
                    if engine is None:
                        engine = self._open()
                    self._write(engine, rows)
                except Exception as error:  # noqa: BLE001 - whatever a database and its driver raise
                    if _for_good(error):
                        _LOG.warning(
                            "The history database rejected %d rows: %s",
                            len(rows),
                            _without_url(error),
                        )
                        self._written(len(rows))
                        continue
                    if not complained:
                        _LOG.warning(
                            "Cannot write the history; copying continues without it: %s",
                            _without_url(error),
                        )
                    complained = True
                    if self._closing:
                        return
                    self._sleep(backoff.next())
                    continue
                backoff.reset()
                if complained:
                    complained = False
                    _LOG.info("Writing the history succeeds again")
                self._written(len(rows))
                self._keep_small(engine)
        finally:
            if engine is not None:
                engine.dispose()

    def _wait_for_rows(self) -> bool:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait(60.0)
            return bool(self._waiting)

    def _sleep(self, seconds: float) -> None:
        deadline = Deadline(seconds)
        with self._changed:
            while not self._closing and not deadline.expired():
                self._changed.wait(deadline.remaining())

    def _first_rows(self) -> list[tuple[str, dict[str, Any]]]:
        with self._changed:
            return [self._waiting[n] for n in range(min(_CHUNK, len(self._waiting)))]

    def _written(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._waiting.popleft()
            dropped, self._dropped = self._dropped, 0
        if dropped:
            _LOG.warning(
                "Dropped %d rows of the history, because the database was too slow; "
                "nothing that is copied is affected. Give it more, or set "
                "mirror.history.url to another one",
                dropped,
            )

    def _open(self) -> Engine:
        from connectors.mirror.history.tables import create_tables, prepare

        if self._url.get_backend_name() == "sqlite" and self._url.database:
            directory = Path(self._url.database).parent
            if directory == default_history_directory():
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = _engine(self._url)
        prepare(engine)
        create_tables(engine)
        return engine

    def _write(self, engine: Engine, rows: list[tuple[str, dict[str, Any]]]) -> None:
        from connectors.mirror.history.tables import TABLES

        by_table: dict[str, list[dict[str, Any]]] = {}
        for table, values in rows:
            by_table.setdefault(table, []).append(values)
        with engine.begin() as connection:
            for table, many in by_table.items():
                connection.execute(TABLES.tables[table].insert(), many)

    def _keep_small(self, engine: Engine) -> None:
        """Merge and delete old rows now and then. A failed step is due again the next time."""
        from sqlalchemy import exc

        from connectors.mirror.history.upkeep import keep_small

        now = self._clock.monotonic()
        if now < self._clean_at:
            return
        self._clean_at = now + UPKEEP_EVERY_S
        try:
            keep_small(engine, self._clock.now_ms(), self._retention_ms, lambda: self._closing)
        except exc.SQLAlchemyError as error:
            _LOG.warning("Cannot merge old rows of the history: %s", _without_url(error))


def _parsed(url: str) -> Any:
    from sqlalchemy import exc, make_url

    try:
        parsed = make_url(url)
        dialect = parsed.get_dialect()
    except (exc.ArgumentError, exc.NoSuchModuleError, ImportError, ValueError) as error:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {URL_KEY}: not an SQLAlchemy URL. Use a "
            "URL such as postgresql+psycopg://user:password@host/database or "
            "sqlite:////path/to/history.db, or none to disable the history",
            key=URL_KEY,
        ) from error
    try:
        dialect.import_dbapi()
    except ImportError as error:
        install = _INSTALL if parsed.get_backend_name() == "postgresql" else "install it"
        raise ConfigError(
            f"{URL_KEY} needs a package that is not installed ({error}): {install}", key=URL_KEY
        ) from error
    return parsed


def _engine(url: Any) -> Engine:
    from connect.storage.sql_engine import sql_engine

    return sql_engine(url)


def _for_good(error: Exception) -> bool:
    """Whether the database will never accept these rows."""
    from sqlalchemy import exc

    return isinstance(error, exc.DataError | exc.IntegrityError)


def _without_url(error: Exception) -> str:
    """Return the driver's own message, which contains hosts and tables but no passwords."""
    return f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
