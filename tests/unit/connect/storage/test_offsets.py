"""Source offsets: their bytes, and the buffer that survives failed flushes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

import pytest

from connect.clients.librdkafka.topic_log import LogRecord, TopicSpec
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, ConnectError, CorruptData
from connect.plugin import OFFSET_NOTE, SourcePartition
from connect.storage.offset_codec import decode_key, decode_value, encode_key, encode_value
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import KafkaOffsetStore
from connect.storage.offset_writer import OffsetWriter
from tests.support.fake_clock import FakeClock
from tests.support.workers.memory_offset_store import MemoryOffsetStore

P0: SourcePartition = {"cluster": "A", "partition": 0, "topic": "t"}
P1: SourcePartition = {"cluster": "A", "partition": 1, "topic": "t"}


class HeldStore(MemoryOffsetStore):
    """A store whose writes end only when the test says how."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[dict[bytes, bytes | None]] = []
        self.pending: list[Future[None]] = []

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        self.offered.append(dict(values))
        self.pending.append(Future())
        return self.pending[-1]


def stored(offset: int) -> bytes:
    return b'{"offset":%d}' % offset


def keys(*partitions: SourcePartition) -> Iterable[bytes]:
    return [encode_key("c", partition) for partition in partitions]


def test_keys_and_values_are_mirror_makers_own() -> None:
    assert encode_key("MirrorSourceConnector", P0) == (
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    )
    heartbeat = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    assert encode_key("MirrorHeartbeatConnector", heartbeat) == (
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
    )
    assert encode_value({"offset": 42}) == b'{"offset":42}'
    assert encode_value(None) is None


def test_a_key_decodes_to_its_connector_and_partition() -> None:
    assert decode_key(encode_key("c", P0)) == ("c", P0)


@pytest.mark.parametrize("key", [b"", b"{", b"[]", b'["c"]', b'["c",null]', b"[1,{}]", b'"c"'])
def test_keys_that_are_none_are_told_apart(key: bytes) -> None:
    assert decode_key(key) is None


def test_an_offset_that_is_no_object_is_corrupt() -> None:
    assert decode_value(b'{"offset":1}') == {"offset": 1}
    assert decode_value(None) is None
    with pytest.raises(CorruptData, match="not list"):
        decode_value(b"[1]")


def test_nested_values_are_refused() -> None:
    with pytest.raises(ConnectError, match="Field a of a source partition is a dict"):
        encode_key("c", {"a": {}})  # type: ignore[dict-item]


def test_reader_answers_in_the_order_asked_with_none_for_what_is_not_there() -> None:
    store = MemoryOffsetStore()
    store.set({encode_key("c", P1): stored(7), encode_key("other", P0): stored(1)}).result(0)
    reader = OffsetReader(store, "c")
    assert reader.offsets([P0, P1], Deadline(1, FakeClock())) == [None, {"offset": 7}]


def test_writer_stores_the_newest_offset_of_each_partition() -> None:
    store = HeldStore()
    writer = OffsetWriter(store, "c")
    writer.add([(P0, {"offset": 1}), (P1, {"offset": 5}), (P0, {"offset": 2})])
    assert writer.waiting == 2
    writer.flush()
    assert store.offered == [dict(zip(keys(P0, P1), [stored(2), stored(5)], strict=True))]
    writer.flushed()
    assert writer.waiting == 0


def test_writer_keeps_what_a_failed_flush_did_not_store_unless_newer_came() -> None:
    store = HeldStore()
    writer = OffsetWriter(store, "c")
    writer.add([(P0, {"offset": 1}), (P1, {"offset": 5})])
    writer.flush().set_exception(BrokerUnavailable("away"))
    writer.add([(P0, {"offset": 9})])
    writer.failed()
    writer.flush()
    assert store.offered[-1] == dict(zip(keys(P0, P1), [stored(9), stored(5)], strict=True))


def test_writer_flushes_once_at_a_time() -> None:
    writer = OffsetWriter(HeldStore(), "c")
    writer.add([(P0, {"offset": 1})])
    writer.flush()
    with pytest.raises(ConnectError, match="in progress"):
        writer.flush()


def test_a_note_goes_with_the_offset_that_it_was_stored_with() -> None:
    store = KafkaOffsetStore(TopicSpec("offsets"), {"bootstrap.servers": "nowhere:1"})
    key, other = keys(P0, P1)

    def read(value: bytes | None, *headers: tuple[str, bytes | None]) -> dict[bytes, bytes]:
        store._take(LogRecord(0, 0, key, value, 0, headers))
        return store.notes([key, other])

    assert read(stored(1)) == {}
    assert read(stored(2), ("x", b"y"), (OFFSET_NOTE, b"two")) == {key: b"two"}
    assert read(stored(3)) == {}
    assert read(stored(4), (OFFSET_NOTE, b"four")) == {key: b"four"}
    assert read(None) == {}


def test_marks_grow_with_every_write_of_a_key_and_deletions_are_writes() -> None:
    store = KafkaOffsetStore(TopicSpec("offsets"), {"bootstrap.servers": "nowhere:1"})
    key, other = keys(P1, P0)
    assert store.marks([key, other]) == {}
    for at, value in ((4, stored(1)), (9, None)):
        store._take(LogRecord(0, at, key, value, 0))
        assert store.marks([key, other]) == {key: at}
    memory = MemoryOffsetStore()
    seen = []
    for value in (stored(1), None, stored(2)):
        memory.set({key: value})
        seen.append(memory.marks([key])[key])
    assert seen == sorted(set(seen))


def test_a_write_that_a_reader_has_not_seen_does_not_count_as_seen() -> None:
    """The store reads on by itself: another worker may store an offset at any moment."""
    store = MemoryOffsetStore()
    reader = OffsetReader(store, "c")
    (key,) = keys(P1)
    assert reader.marks([P0, P1]) == [-1, -1]
    assert reader.offsets([P0, P1], Deadline(1, FakeClock())) == [None, None]
    store.set({key: stored(7)}).result(0)
    assert reader.marks([P0, P1]) == [-1, -1]
    assert reader.offsets([P1], Deadline(1, FakeClock())) == [{"offset": 7}]
    assert reader.marks([P0, P1]) == [-1, store.marks([key])[key]]
