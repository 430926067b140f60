"""Fetch v11 and Produce v8 are what kafka-python's own message classes read and write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from connect.errors import CorruptData
from connect.protocol.messages import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    FetchPartition,
    encode_fetch,
    encode_produce,
    encode_request_header,
    parse_fetch,
    parse_produce,
)


def test_a_fetch_request_is_read_back_by_kafka_python() -> None:
    body = encode_fetch(
        {("t", 0): FetchPartition(5, 2, 100), ("u", 3): FetchPartition(7, -1, 200)},
        [("gone", 1), ("gone", 2)],
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        isolation=1,
        session_id=42,
        session_epoch=3,
        rack="r1",
    )
    request = FetchRequest.decode(body, version=FETCH_VERSION)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 42, 3)
    wanted = [
        (topic.topic, p.partition, p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes)
        for topic in request.topics
        for p in topic.partitions
    ]
    assert wanted == [("t", 0, 5, 2, 100), ("u", 3, 7, -1, 200)]
    assert [(t.topic, t.partitions) for t in request.forgotten_topics_data] == [("gone", [1, 2])]
    assert request.rack_id == "r1"


def fetch_response() -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData
    aborted = data.AbortedTransaction
    response = FetchResponse(
        throttle_time_ms=11,
        error_code=0,
        session_id=9,
        responses=[
            topic(
                topic="t",
                partitions=[
                    data(
                        partition_index=1,
                        error_code=0,
                        high_watermark=100,
                        last_stable_offset=90,
                        log_start_offset=5,
                        aborted_transactions=[aborted(producer_id=7, first_offset=60)],
                        preferred_read_replica=-1,
                        records=b"bytes",
                    ),
                    data(
                        partition_index=2,
                        error_code=6,
                        high_watermark=-1,
                        last_stable_offset=-1,
                        log_start_offset=-1,
                        aborted_transactions=None,
                        preferred_read_replica=4,
                        records=None,
                    ),
                ],
            )
        ],
    )
    return bytes(response.encode(version=FETCH_VERSION))


def test_a_fetch_response_written_by_kafka_python_is_read() -> None:
    parsed = parse_fetch(memoryview(fetch_response()))
    assert (parsed.throttle_ms, parsed.error, parsed.session_id) == (11, 0, 9)
    first, second = parsed.partitions
    assert (first.topic, first.partition, first.error) == ("t", 1, 0)
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (100, 90, 5)
    assert first.aborted == ((7, 60),)
    assert bytes(first.records) == b"bytes"
    assert (second.error, second.preferred_replica, len(second.records)) == (6, 4, 0)


def test_a_produce_request_carries_its_batches_uncopied() -> None:
    batch = bytearray(b"batch one")
    buffers, size = encode_produce(
        {("t", 0): batch, ("t", 1): bytearray(b"two"), ("u", 5): bytearray(b"three")}, 900
    )
    assert any(buffer is batch for buffer in buffers)
    assert sum(map(len, buffers)) == size
    request = ProduceRequest.decode(b"".join(buffers), version=PRODUCE_VERSION)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (-1, 900, None)
    sent = [
        (topic.name, p.index, bytes(p.records))
        for topic in request.topic_data
        for p in topic.partition_data
    ]
    assert sent == [("t", 0, b"batch one"), ("t", 1, b"two"), ("u", 5, b"three")]


def test_a_produce_request_names_its_transaction() -> None:
    buffers, size = encode_produce({("t", 0): bytearray(b"one")}, 900, "group-mirror-0")
    assert sum(map(len, buffers)) == size
    request = ProduceRequest.decode(b"".join(buffers), version=PRODUCE_VERSION)
    assert (request.acks, request.timeout_ms) == (-1, 900)
    assert request.transactional_id == "group-mirror-0"


def produce_response() -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    data = topic.PartitionProduceResponse
    record_error = data.BatchIndexAndErrorMessage
    response = ProduceResponse(
        responses=[
            topic(
                name="t",
                partition_responses=[
                    data(
                        index=0,
                        error_code=0,
                        base_offset=55,
                        log_append_time_ms=-1,
                        log_start_offset=3,
                        record_errors=[],
                        error_message=None,
                    ),
                    data(
                        index=1,
                        error_code=87,
                        base_offset=-1,
                        log_append_time_ms=-1,
                        log_start_offset=-1,
                        record_errors=[
                            record_error(
                                batch_index=2, batch_index_error_message="no key in record 2"
                            )
                        ],
                        error_message=None,
                    ),
                ],
            )
        ],
        throttle_time_ms=21,
    )
    return bytes(response.encode(version=PRODUCE_VERSION))


def test_a_produce_response_written_by_kafka_python_is_read() -> None:
    parsed, throttle_ms = parse_produce(memoryview(produce_response()))
    assert throttle_ms == 21
    assert [(p.topic, p.partition, p.error, p.base_offset) for p in parsed] == [
        ("t", 0, 0, 55),
        ("t", 1, 87, -1),
    ]
    assert parsed[1].message == "no key in record 2"


def test_the_request_header_counts_itself_and_the_body() -> None:
    head = encode_request_header(1, 11, 77, b"me", 30)
    assert head.hex() == "0000002a" + "0001" + "000b" + "0000004d" + "0002" + "6d65"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_response_or_corrupt(data: bytes) -> None:
    for parse in (parse_fetch, parse_produce):
        try:
            parse(memoryview(data))
        except CorruptData:
            continue


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_response_never_raises_anything_else(at: int, value: int) -> None:
    for good, parse in ((fetch_response(), parse_fetch), (produce_response(), parse_produce)):
        data = bytearray(good)
        data[at % len(data)] = value
        try:
            parse(memoryview(data))
        except CorruptData:
            continue


@pytest.mark.parametrize("parse", [parse_fetch, parse_produce])
def test_huge_counts_are_refused_before_anything_is_made(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(CorruptData):
        parse(memoryview(bytes.fromhex("7fffffff" * 8)))
