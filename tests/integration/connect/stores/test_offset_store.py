"""One contract, every offset store: memory, a topic on a real broker, and databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.config.types import SecretStr
from connect.plugin import SourcePartition
from connect.storage.offset_codec import encode_key
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore
from connect.storage.offset_writer import OffsetWriter
from connect.storage.sql_offset_store import SqlOffsetStore
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import unique
from tests.support.workers.memory_offset_store import MemoryOffsetStore

PARTITION: SourcePartition = {"cluster": "A", "partition": 0, "topic": "t"}
OpenStore = Callable[[], OffsetStore]


def kafka_store(cluster: KafkaCluster, topic: str, partitions: int = 5) -> KafkaOffsetStore:
    return KafkaOffsetStore(
        TopicSpec(topic, partitions, 1), {"bootstrap.servers": cluster.bootstrap_servers}
    )


def empty_database(url: SecretStr) -> SqlOffsetStore:
    """The server is shared by tests."""
    engine = create_engine(url.reveal())
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS connect_source_offsets"))
    engine.dispose()
    return SqlOffsetStore.at_url(url)


@pytest.fixture(params=["memory", "kafka", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OffsetStore]:
    opened: OffsetStore
    if request.param == "memory":
        opened = MemoryOffsetStore()
    elif request.param == "sqlite":
        opened = SqlOffsetStore.in_file(tmp_path / "offsets.db")
    elif request.param == "postgresql":
        opened = empty_database(request.getfixturevalue("postgresql"))
    else:
        cluster = request.getfixturevalue("target_cluster")
        opened = kafka_store(cluster, unique("mm2-offsets"))
    opened.start(Deadline(30))
    yield opened
    opened.stop(Deadline(10))


def test_an_empty_store_has_nothing(store: OffsetStore) -> None:
    assert store.get([b"k"], Deadline(20)) == {}
    assert store.partitions_of("c") == frozenset()


def test_what_was_set_is_got_and_other_keys_are_absent(store: OffsetStore) -> None:
    store.set({b"a": b"1", b"b": b"2"}).result(20)
    assert store.get([b"a", b"b", b"c"], Deadline(20)) == {b"a": b"1", b"b": b"2"}


def test_the_newest_value_wins(store: OffsetStore) -> None:
    for n in range(20):
        last = store.set({b"k": b"%d" % n})
    last.result(20)
    assert store.get([b"k"], Deadline(20)) == {b"k": b"19"}


def test_none_deletes(store: OffsetStore) -> None:
    store.set({b"k": b"1"}).result(20)
    store.set({b"k": None}).result(20)
    assert store.get([b"k"], Deadline(20)) == {}


def test_setting_nothing_is_done_at_once(store: OffsetStore) -> None:
    assert store.set({}).done()


def test_keys_are_known_by_connector_until_they_are_deleted(store: OffsetStore) -> None:
    mine, other = encode_key("c", PARTITION), encode_key("d", PARTITION)
    store.set({mine: b"{}", other: b"{}", b"not a key": b"{}"}).result(20)
    store.get([], Deadline(20))
    assert store.partitions_of("c") == {mine}
    store.set({mine: None}).result(20)
    store.get([], Deadline(20))
    assert store.partitions_of("c") == frozenset()


def test_a_reader_finds_what_a_writer_stored(store: OffsetStore) -> None:
    writer = OffsetWriter(store, "MirrorSourceConnector")
    writer.add([(PARTITION, {"offset": 42})])
    writer.flush().result(20)
    writer.flushed()
    reader = OffsetReader(store, "MirrorSourceConnector")
    absent = {**PARTITION, "partition": 1}
    assert reader.offsets([absent, PARTITION], Deadline(20)) == [None, {"offset": 42}]
    assert OffsetReader(store, "Other").offsets([PARTITION], Deadline(20)) == [None]


def test_offsets_outlive_the_store_that_wrote_them(target_cluster: KafkaCluster) -> None:
    topic = unique("mm2-offsets")
    for run in range(2):
        store = kafka_store(target_cluster, topic)
        store.start(Deadline(30))
        try:
            found = OffsetReader(store, "c").offsets([PARTITION], Deadline(20))
            assert found == [{"offset": run - 1} if run else None]
            writer = OffsetWriter(store, "c")
            writer.add([(PARTITION, {"offset": run})])
            writer.flush().result(20)
        finally:
            store.stop(Deadline(10))


def test_the_topic_has_mirror_makers_bytes_in_javas_partition(
    target_cluster: KafkaCluster,
) -> None:
    topic = unique("mm2-offsets")
    store = kafka_store(target_cluster, topic, partitions=25)
    store.start(Deadline(30))
    try:
        writer = OffsetWriter(store, "conn")
        writer.add([({"filename": "x"}, {"position": 42})])
        writer.flush().result(20)
    finally:
        store.stop(Deadline(10))
    (record,) = read_partition(target_cluster.bootstrap_servers, topic, 5)
    assert (record.key, record.value) == (b'["conn",{"filename":"x"}]', b'{"position":42}')
