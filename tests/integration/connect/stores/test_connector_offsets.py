"""Listing, altering and resetting a connector's offsets, in every offset store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.errors import CorruptData
from connect.plugin import SourceOffset, SourcePartition
from connect.storage.offset_admin import read_offsets, stored_partitions, write_offsets
from connect.storage.offset_codec import encode_key
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore
from deploy.brokers import KafkaCluster
from tests.support.records.topics import unique
from tests.support.workers.memory_offset_store import MemoryOffsetStore

FIRST: SourcePartition = {"cluster": "A", "partition": 0, "topic": "t"}
SECOND: SourcePartition = {"cluster": "A", "partition": 1, "topic": "t"}


@pytest.fixture(params=["memory", "kafka"])
def store(request: pytest.FixtureRequest) -> Iterator[OffsetStore]:
    opened: OffsetStore
    if request.param == "memory":
        opened = MemoryOffsetStore()
    else:
        cluster: KafkaCluster = request.getfixturevalue("target_cluster")
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        opened = KafkaOffsetStore(TopicSpec(unique("offsets"), 5, 1), servers)
    opened.start(Deadline(30))
    yield opened
    opened.stop(Deadline(10))


def write(
    store: OffsetStore, connector: str, *offsets: tuple[SourcePartition, SourceOffset | None]
) -> None:
    write_offsets(store, connector, offsets, Deadline(20))


def read(store: OffsetStore, connector: str) -> list[tuple[SourcePartition, SourceOffset]]:
    return read_offsets(store, connector, Deadline(20))


def test_a_connector_has_no_offsets_at_first(store: OffsetStore) -> None:
    assert read(store, "c") == []
    assert stored_partitions(store, "c", Deadline(20)) == []


def test_all_offsets_of_a_connector_are_read_and_no_others(store: OffsetStore) -> None:
    write(store, "c", (FIRST, {"offset": 1}), (SECOND, {"offset": 2}))
    write(store, "d", (FIRST, {"offset": 3}))
    assert read(store, "c") == [(FIRST, {"offset": 1}), (SECOND, {"offset": 2})]
    assert read(store, "d") == [(FIRST, {"offset": 3})]


def test_none_deletes_and_other_partitions_stay(store: OffsetStore) -> None:
    write(store, "c", (FIRST, {"offset": 1}), (SECOND, {"offset": 2}))
    write(store, "c", (FIRST, None))
    assert read(store, "c") == [(SECOND, {"offset": 2})]


def test_every_offset_can_be_reset(store: OffsetStore) -> None:
    write(store, "c", (FIRST, {"offset": 1}), (SECOND, {"offset": 2}))
    partitions = stored_partitions(store, "c", Deadline(20))
    write(store, "c", *((partition, None) for partition in partitions))
    assert read(store, "c") == []
    assert store.get([encode_key("c", FIRST)], Deadline(20)) == {}


def test_the_order_in_which_a_user_writes_a_partition_does_not_matter(store: OffsetStore) -> None:
    stored: SourcePartition = {"topic": "t", "partition": 0, "cluster": "A"}
    key = encode_key("c", stored)
    store.set({key: b'{"offset":1}'}).result(20)
    write(store, "c", ({"partition": 0, "cluster": "A", "topic": "t"}, {"offset": 7}))
    assert store.get([key], Deadline(20)) == {key: b'{"offset":7}'}
    assert len(read(store, "c")) == 1


def test_numbers_and_booleans_are_different_partitions(store: OffsetStore) -> None:
    write(store, "c", ({"p": 1}, {"o": 1}), ({"p": True}, {"o": 2}), ({"p": 1.0}, {"o": 3}))
    assert [offset for _, offset in read(store, "c")] == [{"o": 3}, {"o": 1}, {"o": 2}]


def test_a_new_partition_gets_the_key_that_mirror_maker_looks_for(store: OffsetStore) -> None:
    write(store, "c", ({"topic": "t", "partition": 0, "cluster": "A"}, {"offset": 7}))
    key = b'["c",{"cluster":"A","partition":0,"topic":"t"}]'
    assert store.get([key], Deadline(20)) == {key: b'{"offset":7}'}


def test_an_offset_that_cannot_be_read_is_named_and_can_be_reset(store: OffsetStore) -> None:
    store.set({encode_key("c", FIRST): b"[]"}).result(20)
    with pytest.raises(
        CorruptData, match=r'Cannot read the offset of partition .*"partition":0.* of connector c'
    ):
        read(store, "c")
    write(
        store,
        "c",
        *((partition, None) for partition in stored_partitions(store, "c", Deadline(20))),
    )
    assert read(store, "c") == []
