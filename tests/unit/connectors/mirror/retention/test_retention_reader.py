"""The tasks of a flow in one process share a reader, and with it one client of the source."""

from __future__ import annotations

from connect.clock import SYSTEM_CLOCK
from connectors.mirror.retention.reader import RetentionReader, leave, shared_reader

CONSUMER = {"bootstrap.servers": "localhost:1"}


def joined(task: str, servers: str = "localhost:1") -> RetentionReader:
    admin = {"bootstrap.servers": servers}
    return shared_reader(task, "a->b", admin, CONSUMER, SYSTEM_CLOCK)


def test_tasks_share_a_reader_until_the_last_leaves() -> None:
    reader = joined("first")
    assert joined("second") is reader
    leave("first", reader)
    assert joined("third") is reader
    leave("second", reader)
    leave("third", reader)
    new = joined("first")
    assert new is not reader
    leave("first", new)


def test_flows_of_other_clusters_have_readers_of_their_own() -> None:
    reader, other = joined("first"), joined("second", "localhost:2")
    assert other is not reader
    leave("second", other)
    assert joined("second") is reader
    leave("first", reader)
    leave("second", reader)


def test_a_task_without_lag_starts_no_thread() -> None:
    reader = joined("task")
    reader.ask("task", [])
    assert reader.expected("task") == {}
    leave("task", reader)
