"""A reader without a group, against a broker that answers as a test says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from connect.clients.cluster.topic_reader import LogRecord, TopicReader
from connect.clock import Deadline
from connect.errors import BrokerError, ConnectError, CorruptData
from connect.protocol.records import Record
from tests.support.copier.hostile_broker import FETCH, Answer, Fault, HostileBroker, fetch_body
from tests.support.records.batches import encode_batch

FIND_COORDINATOR = 10
TIMEOUT_S = 20.0


def batch(first: int, count: int) -> bytes:
    records = [Record(first + n, 1_000 + n, b"k%d" % n, b"v" * 100) for n in range(count)]
    return encode_batch(records, base_offset=first)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@contextmanager
def reading(broker: HostileBroker, start: int = 0) -> Iterator[TopicReader]:
    reader = TopicReader({"bootstrap.servers": broker.servers}, broker.topic, {0: start})
    try:
        yield reader
    finally:
        reader.close()


def read_until(reader: TopicReader, end: int) -> list[LogRecord]:
    deadline = Deadline(TIMEOUT_S)
    found: list[LogRecord] = []
    while reader.position(0) < end:
        deadline.check(f"reading to offset {end}")
        for _, records, _ in reader.poll(1.0):
            found.extend(records)
    return found


def first_answers(count: int, change: Fault) -> Fault:
    """Applies a change to the first answers to fetches."""

    def fault(answer: Answer) -> None:
        if answer.api == FETCH and answer.number <= count:
            change(answer)

    return fault


def test_records_come_in_order_from_the_first_offset_on_and_no_coordinator_is_asked_for() -> None:
    with HostileBroker(log=(batch(0, 10), batch(10, 5))) as broker, reading(broker, 7) as reader:
        found = read_until(reader, 15)
        assert [record.offset for record in found] == list(range(7, 15))
        assert found[0] == LogRecord(0, 7, b"k7", b"v" * 100, 1_007)
        assert reader.well
        assert reader.end(0) == 15
        assert FIND_COORDINATOR not in broker.asked


def cut(answer: Answer) -> None:
    answer.cut = 10


def test_a_broken_connection_is_made_again_and_nothing_is_read_twice() -> None:
    fault = first_answers(2, cut)
    log = (batch(0, 10),)
    with HostileBroker(log=log, fault=fault) as broker, reading(broker) as reader:
        assert [record.offset for record in read_until(reader, 10)] == list(range(10))
        assert reader.well


def test_after_a_seek_nothing_of_before_comes() -> None:
    with HostileBroker(log=(batch(0, 10), batch(10, 5))) as broker, reading(broker) as reader:
        read_until(reader, 15)
        reader.seek(0, 12)
        assert [record.offset for record in read_until(reader, 15)] == [12, 13, 14]


def test_a_batch_without_its_checksum_is_not_given_out() -> None:
    log = (damaged(batch(0, 3)),)
    with (
        HostileBroker(log=log) as broker,
        reading(broker) as reader,
        pytest.raises(CorruptData, match="checksum"),
    ):
        read_until(reader, 3)


@pytest.mark.parametrize(("code", "name"), [(29, "TOPIC_AUTHORIZATION_FAILED"), (13, "NETWORK")])
def test_an_error_that_does_not_pass_is_raised_and_one_that_does_is_outlived(
    code: int, name: str
) -> None:
    def refuse(answer: Answer) -> None:
        answer.body = fetch_body("t", b"", -1, error=code)

    fault = first_answers(2, refuse)
    with HostileBroker(log=(batch(0, 3),), fault=fault) as broker, reading(broker) as reader:
        if code == 29:
            with pytest.raises(BrokerError, match=f"Reading topic t failed: {name}"):
                read_until(reader, 3)
            assert not reader.well
        else:
            assert len(read_until(reader, 3)) == 3
            assert reader.trouble is None


def test_offsets_that_retention_has_deleted_are_passed_over() -> None:
    def out_of_range(answer: Answer) -> None:
        answer.body = fetch_body("t", b"", -1, error=1)

    log = (batch(0, 3),)
    fault = first_answers(1, out_of_range)
    with HostileBroker(log=log, fault=fault) as broker, reading(broker, 2) as reader:
        # This broker's log begins at 0, whatever it said.
        assert [record.offset for record in read_until(reader, 3)][-3:] == [0, 1, 2]


def test_a_broker_that_falls_silent_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_silent(answer: Answer) -> None:
        answer.silent = True

    monkeypatch.setattr("connect.clients.cluster.fetch_connection.PATIENCE_S", 0.5)
    fault = first_answers(1, keep_silent)
    with HostileBroker(log=(batch(0, 3),), fault=fault) as broker, reading(broker) as reader:
        assert len(read_until(reader, 3)) == 3


def test_a_cluster_that_is_not_there_is_waited_for_with_the_reason() -> None:
    with HostileBroker() as broker:
        servers = broker.servers
    reader = TopicReader({"bootstrap.servers": servers}, "t", {0: 0})
    try:
        deadline = Deadline(TIMEOUT_S)
        while reader.trouble is None:
            deadline.check("the reader says what it waits for")
            assert reader.poll(0.2) == []
    except ConnectError:
        pytest.fail("an error that may pass was raised")
    finally:
        reader.close()
