"""Batches that librdkafka wrote, re-batched by us, accepted by a broker, read by librdkafka."""

from __future__ import annotations

from collections.abc import Iterator

import crc32c
import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from connect.clients.config.settings import WireSettings
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.protocol.batches import read_headers
from connect.protocol.compression import CODEC_NAMES
from connect.protocol.records import iter_records, rebatch, recompress, verify_crc
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.reading import contents, read_partition
from tests.support.records.topics import create_topic

AMPLE_S = 60.0
TIME = 1_700_000_000_000

RECORDS = [
    Record(
        value=None if n % 11 == 0 else b"value %d " % n * (n % 40),
        key=None if n % 7 == 0 else b"key %d" % n,
        timestamp_ms=TIME + n * 37 % 50_000,
        headers=[("a", b"%d" % n), ("a", None)] if n % 5 == 0 else [],
    )
    for n in range(3000)
]


@pytest.fixture
def connection(source_cluster: KafkaCluster) -> Iterator[WireConnection]:
    host, port = source_cluster.bootstrap_servers.split(",")[0].split(":")
    settings = WireSettings(bootstrap=((host, int(port)),), client_id="record-batches")
    connection = open_connection(host, int(port), settings, deadline())
    yield connection
    connection.close()


def deadline() -> Deadline:
    return Deadline(AMPLE_S, SYSTEM_CLOCK)


def fetch_all(connection: WireConnection, topic: str, end: int) -> list[memoryview]:
    batches: list[memoryview] = []
    position = 0
    while position < end:
        request = FetchRequest(
            version=11,
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=10_000_000,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchRequest.FetchTopic.FetchPartition(
                            partition=0, fetch_offset=position, partition_max_bytes=10_000_000
                        )
                    ],
                )
            ],
            forgotten_topics_data=[],
            rack_id="",
        )
        answer = connection.call(request, deadline()).responses[0].partitions[0]
        assert answer.error_code == 0
        log = memoryview(bytes(answer.records))
        for header in read_headers(log):
            batches.append(log[header.start : header.start + header.size])
            position = header.next_offset
    return batches


def send(connection: WireConnection, topic: str, data: bytearray) -> None:
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    request = ProduceRequest(
        version=8,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.TopicProduceData.PartitionProduceData(
                        index=0, records=bytes(data)
                    )
                ],
            )
        ],
    )
    answer = connection.call(request, deadline()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.error_message) == (0, None)


@pytest.mark.parametrize(
    ("codec", "timestamps"),
    [*((codec, "CreateTime") for codec in CODEC_NAMES), ("lz4", "LogAppendTime")],
)
def test_a_consumer_reads_the_same(
    source_cluster: KafkaCluster, connection: WireConnection, codec: str, timestamps: str
) -> None:
    servers = source_cluster.bootstrap_servers
    source = create_topic(servers, configs={"message.timestamp.type": timestamps})
    produce(servers, source, RECORDS, compression=codec, batch_records=400)
    expected = read_partition(servers, source)
    assert len(expected) == len(RECORDS)

    batches = fetch_all(connection, source, len(RECORDS))
    assert all(verify_crc(batch) for batch in batches)
    decoded = [record for batch in batches for record in iter_records(batch)]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decoded] == [
        (r.offset, *r.content()) for r in expected
    ]

    target = create_topic(servers)
    for number in range(len(CODEC_NAMES)):
        for made in rebatch(batches, from_offset=0, codec=number, level=None, max_bytes=100_000):
            send(connection, target, made.data)
        for batch in batches if timestamps == "CreateTime" else []:
            recompressed = recompress(batch, number, None)
            recompressed[:8] = bytes(8)  # baseOffset
            recompressed[43:57] = b"\xff" * 14  # no producer
            send(connection, target, recompressed)
    copies = len(CODEC_NAMES) * (2 if timestamps == "CreateTime" else 1)
    assert contents(read_partition(servers, target)) == contents(expected) * copies
