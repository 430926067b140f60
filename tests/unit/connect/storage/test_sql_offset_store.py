"""What is particular to offsets in a database. The contract of all offset stores:
tests/integration/test_offset_store."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.clock import Deadline
from connect.config.types import SecretStr
from connect.config.worker import WorkerConfig
from connect.errors import ConfigError, ConnectError
from connect.storage.sql_offset_store import (
    OffsetDatabaseUnavailable,
    SqlOffsetStore,
    open_sql_offset_store,
)

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = {"bootstrap.servers": "b:1", "key.converter": BYTES, "value.converter": BYTES}


def opened(path: Path) -> SqlOffsetStore:
    store = SqlOffsetStore.in_file(path)
    store.start(Deadline(5))
    return store


def test_offsets_outlive_the_store_that_wrote_them(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    first = opened(path)
    first.set({b"k": b"1", b"gone": b"2"})
    first.set({b"gone": None})
    first.stop(Deadline(5))
    second = opened(path)
    assert second.get([b"k", b"gone"], Deadline(5)) == {b"k": b"1"}
    second.stop(Deadline(5))


def test_many_keys_and_long_ones_are_stored_at_once(tmp_path: Path) -> None:
    store = opened(tmp_path / "offsets")
    values = {b"%d" % number * 2000: b"%d" % number for number in range(1200)}
    store.set(values).result(10)
    assert store.get(values, Deadline(10)) == values
    store.stop(Deadline(5))


def test_a_file_of_a_java_worker_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    path.write_bytes(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap")
    with pytest.raises(ConfigError, match="a Java worker wrote this file") as caught:
        SqlOffsetStore.in_file(path)
    assert caught.value.key == "offset.storage.file.filename"
    assert path.read_bytes().startswith(b"\xac\xed")


def test_a_directory_that_does_not_exist_is_told(tmp_path: Path) -> None:
    store = SqlOffsetStore.in_file(tmp_path / "none" / "offsets")
    with pytest.raises(OffsetDatabaseUnavailable, match="unable to open database file"):
        store.start(Deadline(5))
    store.stop(Deadline(1))


@pytest.mark.parametrize("url", ["not a url with hunter2", "nosuch+driver://u:hunter2@h/d"])
def test_a_wrong_url_is_refused_without_telling_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"\[hidden\] for configuration offset.storage") as caught:
        SqlOffsetStore.at_url(SecretStr(url))
    assert "hunter2" not in str(caught.value)


def test_nothing_is_stored_before_the_start_or_after_the_stop(tmp_path: Path) -> None:
    store = SqlOffsetStore.in_file(tmp_path / "offsets")
    for _ in range(2):
        with pytest.raises(ConnectError, match="is not open"):
            store.set({b"k": b"v"}).result(5)
        store.stop(Deadline(1))


def test_a_standalone_worker_names_a_file_or_a_url(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets")
    in_file = WorkerConfig.for_standalone({**WORKER, "offset.storage.file.filename": path})
    open_sql_offset_store(in_file).stop(Deadline(1))
    url = "sqlite:///:memory:"
    at_url = WorkerConfig.for_standalone({**WORKER, "offset.storage.sql.url": url})
    open_sql_offset_store(at_url).stop(Deadline(1))
    with pytest.raises(ConfigError, match=r'configuration "offset.storage.file.filename"'):
        WorkerConfig.for_standalone(WORKER)
