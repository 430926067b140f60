"""A connector's two offset stores: which is read first, and what is written in which order."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from connect.clock import Deadline
from connect.errors import BrokerUnavailable, DeadlineExceeded
from connect.plugin import RecordMetadata
from connect.storage.connector_offset_store import ConnectorOffsetStore, TransactionalOffsets
from connect.storage.offset_codec import encode_key
from tests.support.workers.memory_offset_store import MemoryOffsetStore

A, B = encode_key("c", {"p": "a"}), encode_key("c", {"p": "b"})
SOON = Deadline(5)


class Place(MemoryOffsetStore):
    """Tells its writes to `story`. `refuses`: every write fails; `hangs`: none ever ends."""

    def __init__(self, name: str, story: list[str]) -> None:
        super().__init__()
        self.name = name
        self.story = story
        self.refuses = self.hangs = False

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        shown = {key.decode()[-4]: value and value.decode() for key, value in values.items()}
        self.story.append(f"{self.name} {shown}")
        if self.hangs:
            return Future()
        if self.refuses:
            failed: Future[None] = Future()
            failed.set_exception(BrokerUnavailable(f"{self.name} is away"))
            return failed
        return super().set(values)


class Pair:
    def __init__(self) -> None:
        self.story: list[str] = []
        self.own, self.shared = Place("own", self.story), Place("shared", self.story)
        self.store = ConnectorOffsetStore(self.own, self.shared, delete_timeout_s=0.05)

    def get(self, *keys: bytes) -> dict[bytes, bytes]:
        return self.store.get(keys, SOON)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_the_connectors_own_offset_comes_first_and_the_workers_fills_gaps(pair: Pair) -> None:
    pair.shared.set({A: b"1", B: b"2"})
    pair.own.set({A: b"9"})
    assert pair.get(A, B) == {A: b"9", B: b"2"}


def test_offsets_are_written_to_both_the_connectors_first(pair: Pair) -> None:
    pair.store.set({A: b"1"}).result(0)
    assert pair.story == ["own {'a': '1'}", "shared {'a': '1'}"]


def test_what_is_deleted_is_deleted_from_the_workers_first(pair: Pair) -> None:
    pair.store.set({A: None, B: b"2"}).result(0)
    assert pair.story == [
        "shared {'a': None}",
        "own {'a': None, 'b': '2'}",
        "shared {'b': '2'}",
    ]


def test_nothing_is_written_when_the_worker_cannot_delete(pair: Pair) -> None:
    pair.shared.refuses = True
    with pytest.raises(BrokerUnavailable, match="shared is away"):
        pair.store.set({A: None, B: b"2"}).result(0)
    assert pair.get(B) == {}


def test_deleting_from_the_workers_topic_has_its_time(pair: Pair) -> None:
    pair.shared.hangs = True
    with pytest.raises(DeadlineExceeded, match="Deleting 1 offsets"):
        pair.store.set({A: None}).result(0)
    assert pair.story == ["shared {'a': None}"]


def test_the_worker_does_not_get_what_the_connectors_topic_did_not_take(pair: Pair) -> None:
    pair.own.refuses = True
    with pytest.raises(BrokerUnavailable, match="own is away"):
        pair.store.set({A: b"1"}).result(0)
    assert pair.story == ["own {'a': '1'}"]


def test_only_a_warning_tells_when_the_worker_does_not_take_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.shared.refuses = True
    with caplog.at_level(logging.WARNING):
        pair.store.set({A: b"1"}).result(0)
    assert "the connector's offsets topic has them: shared is away" in caplog.text
    assert pair.get(A) == {A: b"1"}


def test_a_connector_has_the_partitions_of_both(pair: Pair) -> None:
    pair.shared.set({A: b"1"})
    pair.own.set({B: b"2"})
    assert pair.store.partitions_of("c") == {A, B}


def test_without_the_workers_the_connectors_has_everything() -> None:
    own = MemoryOffsetStore()
    store = ConnectorOffsetStore(own, None, delete_timeout_s=1)
    store.set({A: b"1", B: None}).result(0)
    assert store.get([A, B], SOON) == {A: b"1"}
    assert store.partitions_of("c") == {A}


class Transaction:
    """A `Pair` whose own store is written in transactions; `sent` is in the open one."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, bytes | None, Future[RecordMetadata]]] = []
        self.story: list[str] = []
        self.shared = Place("shared", self.story)
        self.own = TransactionalOffsets(MemoryOffsetStore(), self.send)
        self.store = ConnectorOffsetStore(self.own, self.shared, delete_timeout_s=1)

    def send(self, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        future: Future[RecordMetadata] = Future()
        self.sent.append((key, value, future))
        return future


def test_offsets_are_stored_when_their_transaction_is_committed() -> None:
    transaction = Transaction()
    stored = transaction.store.set({A: b"1"})
    ((key, value, future),) = transaction.sent
    future.set_result(RecordMetadata("offsets", 0, 0, 0))
    assert (key, value, stored.done(), transaction.story) == (A, b"1", False, [])
    transaction.own.committed()
    assert stored.result(0) is None
    assert transaction.story == ["shared {'a': '1'}"]


def test_offsets_of_an_aborted_transaction_are_nowhere() -> None:
    transaction = Transaction()
    stored = transaction.store.set({A: b"1"})
    transaction.own.aborted(BrokerUnavailable("fenced"))
    with pytest.raises(BrokerUnavailable, match="fenced"):
        stored.result(0)
    assert transaction.story == []


def test_an_offset_that_was_not_sent_is_known_before_the_commit() -> None:
    transaction = Transaction()
    transaction.store.set({A: b"1", B: b"2"})
    assert transaction.own.failure() is None
    transaction.sent[0][2].set_exception(BrokerUnavailable("no leader"))
    transaction.sent[1][2].set_result(RecordMetadata("offsets", 0, 0, 0))
    assert str(transaction.own.failure()) == "no leader"
