"""The history is written aside, bounded, and tells what it could not keep."""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import sys
from pathlib import Path

import pytest

from api.cli.output.mirror_client import Output
from connect.config.types import SecretStr
from connect.errors import ConfigError
from connect.storage import sql_engine
from connectors.mirror.config import history_url
from connectors.mirror.config.history_url import (
    default_history_files,
    flow_history_url,
)
from connectors.mirror.history import database as module
from connectors.mirror.history.database import (
    History,
    check_history,
    open_history,
    read_events,
)
from connectors.mirror.history.rows import EventRow, FlowTask, LagRow
from tests.support.waiting import wait_until

FLOW = FlowTask("MirrorSourceConnector", 0, "a", "b")
EVENT = EventRow("retention", "t", 3, "a.t", "report", "source", 10, 59, 50, 60, "lost")
DAY_MS = 24 * 3600 * 1000


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_rows_are_there_after_the_last_user_closed(tmp_path: Path) -> None:
    url = SecretStr(f"sqlite:///{tmp_path / 'h.db'}")
    one, other = open_history(url, 7), open_history(url, 7)
    assert one is not None
    assert one is other
    one.add(FLOW, EVENT)
    one.close()
    one.add(FLOW, LagRow("t", 3, "a.t", 5, 70, None))
    one.close()
    found = rows(
        tmp_path / "h.db",
        "select connector, task, source, target, topic, partition, kind, first, last, resume"
        " from mirror_events",
    )
    assert found == [("MirrorSourceConnector", 0, "a", "b", "t", 3, "retention", 10, 59, 60)]
    assert rows(tmp_path / "h.db", "select lag_records, lag_ms from mirror_lags") == [(5, 70)]
    assert open_history(SecretStr("none"), 7) is None


def test_events_are_printed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'h.db'}"
    written = open_history(SecretStr(url), 7)
    assert written is not None
    written.add(FLOW, EVENT)
    written.close()
    found = read_events(SecretStr(url), 10)
    table, document = io.StringIO(), io.StringIO()
    Output(table, as_json=False).events(found)
    assert "a->b" in table.getvalue()
    assert "source 10-59" in table.getvalue()
    Output(document, as_json=True).events(found)
    (event,) = json.loads(document.getvalue())
    assert (event["topic"], event["partition"], event["resume"]) == ("t", 3, 60)
    with pytest.raises(ConfigError, match="Cannot read the history"):
        read_events(SecretStr(f"sqlite:///{tmp_path / 'none.db'}"), 10)


def test_old_rows_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    first = History(f"sqlite:///{path}", 7)
    first.users = 1
    first.add(FLOW, EVENT)
    first.close()
    connection = sqlite3.connect(path)
    connection.execute("update mirror_events set at_ms = at_ms - ?", (8 * DAY_MS,))
    connection.commit()
    connection.close()
    second = History(f"sqlite:///{path}", 7)
    second.users = 1
    second.add(FLOW, EVENT)
    second.close()
    assert rows(path, "select count(*) from mirror_events") == [(1,)]


def test_a_database_that_is_away_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 10)
    monkeypatch.setattr(module, "_RETRY_FIRST_S", 0.05)
    folder = tmp_path / "later"
    kept = History(f"sqlite:///{folder / 'h.db'}", 7)
    kept.users = 1
    with caplog.at_level(logging.INFO):
        for _ in range(25):
            kept.add(FLOW, EVENT)
        wait_until(lambda: "Cannot write the history" in caplog.text, 10.0, "it says so")
        folder.mkdir()
        wait_until(lambda: "Dropped 15 rows of the history" in caplog.text, 10.0, "and this")
    kept.close()
    assert rows(folder / "h.db", "select count(*) from mirror_events") == [(10,)]


def test_a_database_that_does_not_answer_leaves_a_stopping_task_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_engine, "_LOCK_TIMEOUT_S", 1_000)  # longer than a test may take
    path = tmp_path / "h.db"
    kept = History(f"sqlite:///{path}", 7)
    kept.users = 1
    kept.add(FLOW, EVENT)
    made = "select 1 from sqlite_master where name = 'mirror_events'"
    wait_until(lambda: path.exists() and rows(path, made), 10.0, "its tables")
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("begin exclusive")
        kept.add(FLOW, EVENT)
        kept.close()
    finally:
        other.close()


def test_a_url_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        open_history(SecretStr("postgres//user:hunter2@host"), 7)
    assert "hunter2" not in str(caught.value)
    assert caught.value.key == "mirror.history.url"


FLOW_PROPS = {
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "one:9092, two:9092",
    "target.cluster.bootstrap.servers": "three:9092",
}


def test_each_flow_has_a_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = flow_history_url(None, FLOW_PROPS).reveal()
    assert url.startswith(f"sqlite:///{tmp_path / 'connect-mirror' / 'history-a-b-'}")
    other = {**FLOW_PROPS, "source.cluster.bootstrap.servers": "elsewhere:9092"}
    same = {**FLOW_PROPS, "source.cluster.bootstrap.servers": "two:9092,one:9092"}
    assert flow_history_url(None, other).reveal() != url
    assert flow_history_url(None, same).reveal() == url
    assert flow_history_url(SecretStr("none"), FLOW_PROPS).reveal() == "none"
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/mirror:/var/lib/other")
    assert flow_history_url(None, FLOW_PROPS).reveal().startswith("sqlite:////var/lib/mirror/hi")


def test_events_of_all_default_files_are_read_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="There is no history in"):
        read_events(None, 10)
    for servers in ("one:9092", "two:9092"):
        props = {**FLOW_PROPS, "source.cluster.bootstrap.servers": servers}
        written = open_history(flow_history_url(None, props), 7)
        assert written is not None
        written.add(FLOW, EVENT)
        written.close()
    assert len(default_history_files()) == 2
    assert [row["topic"] for row in read_events(None, 10)] == ["t", "t"]
    assert len(read_events(None, 1)) == 1


def test_commands_beside_the_systemd_service_find_its_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(history_url, "SERVICE_DIRECTORY", tmp_path / "service")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "root"))
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "service"))
    (tmp_path / "service").mkdir()
    url = flow_history_url(None, FLOW_PROPS)
    written = open_history(url, 7)
    assert written is not None
    written.add(FLOW, EVENT)
    written.close()

    monkeypatch.delenv("STATE_DIRECTORY")
    assert flow_history_url(None, FLOW_PROPS) == url
    assert [row["topic"] for row in read_events(None, 10)] == ["t"]
    # A flow that the service does not have is the user's own.
    other = {**FLOW_PROPS, "source.cluster.bootstrap.servers": "elsewhere:9092"}
    assert flow_history_url(None, other).reveal().startswith(f"sqlite:///{tmp_path / 'root'}")


def test_somebody_who_runs_a_flow_keeps_its_history_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(history_url, "SERVICE_DIRECTORY", tmp_path / "service")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    url = flow_history_url(None, FLOW_PROPS)
    written = open_history(url, 7)
    assert written is not None
    written.add(FLOW, EVENT)
    written.close()
    file = Path(url.reveal().removeprefix("sqlite:///"))
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / file.name).write_bytes(file.read_bytes())
    assert flow_history_url(None, FLOW_PROPS) == url


@pytest.mark.parametrize(
    ("url", "package", "told"),
    [
        ("database", "psycopg", r"not an SQLAlchemy URL. Use .* postgresql\+psycopg://"),
        (
            "postgresql+psycopg://u:secret@h/d",
            "psycopg",
            "needs a package that is not installed .*: "
            r"pip install 'kafka-connect-mirror\[postgresql\]'",
        ),
        ("mysql+pymysql://u:secret@h/d", "pymysql", "not installed .*pymysql.*: install it"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_starts(
    url: str, package: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=told) as raised:
        check_history({"mirror.history.url": url})
    assert raised.value.key == "mirror.history.url"
    assert "secret" not in str(raised.value)
    check_history({"mirror.history.url": "none"})
    check_history({})
