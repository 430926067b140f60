"""The rules of a real broker for epochs of an idempotent producer, which the copier relies on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import Deadline
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import (
    PRODUCE_API,
    PRODUCE_VERSION,
    encode_produce,
    encode_request_header,
    parse_produce,
)
from connect.protocol.records import Record
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import wire
from tests.support.records.batches import encode_batch
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic

TIMEOUT_S = 30.0
PRODUCER = 987_654_321
"""An idempotent producer's ID need not be one that the cluster has handed out."""


class Producer:
    """Sends batches of one record with the epoch and sequence number that a test says."""

    def __init__(self, connection: WireConnection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def send(self, value: bytes, *, epoch: int, sequence: int) -> int:
        """The broker's error code; 0: it has appended the record."""
        batch = encode_batch(
            [Record(offset=0, timestamp=0, key=None, value=value)],
            base_offset=0,
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        buffers, size = encode_produce({(self._topic, 0): bytearray(batch)}, 10_000)
        head = encode_request_header(PRODUCE_API, PRODUCE_VERSION, 1, b"test", size)
        deadline = Deadline(TIMEOUT_S)
        self._connection.send_raw(b"".join((head, *buffers)), 1, deadline, "Produce")
        (produced,), _ = parse_produce(self._connection.receive_raw(deadline, "Produce"))
        return produced.error


@pytest.fixture
def topic(target_cluster: KafkaCluster) -> str:
    return create_topic(target_cluster.bootstrap_servers, "epochs")


@pytest.fixture
def producer(target_cluster: KafkaCluster, topic: str) -> Iterator[Producer]:
    settings = wire(target_cluster.bootstrap_servers)
    host, port = settings.bootstrap[0]
    with closing(open_connection(host, port, settings, Deadline(TIMEOUT_S))) as connection:
        yield Producer(connection, topic)


def test_a_late_batch_of_the_former_epoch_is_refused(
    target_cluster: KafkaCluster, topic: str, producer: Producer
) -> None:
    assert producer.send(b"first", epoch=0, sequence=0) == 0
    assert producer.send(b"second", epoch=1, sequence=0) == 0

    late = producer.send(b"late", epoch=0, sequence=1)

    assert late == ErrorCode.INVALID_PRODUCER_EPOCH
    found = read_partition(target_cluster.bootstrap_servers, topic, 0)
    assert [record.value for record in found] == [b"first", b"second"]


def test_a_new_epoch_begins_with_sequence_number_0(producer: Producer) -> None:
    assert producer.send(b"first", epoch=0, sequence=0) == 0
    assert producer.send(b"second", epoch=1, sequence=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
