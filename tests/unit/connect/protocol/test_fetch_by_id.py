"""Fetch v13 is what kafka-python's own message classes read and write."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

from connect.errors import CorruptData
from connect.protocol.fetch_by_id import (
    FETCH_BY_ID_VERSION,
    encode_fetch_by_id,
    parse_fetch_by_id,
)
from connect.protocol.messages import FetchPartition

ONE, TWO = UUID(int=1 << 100), UUID(int=2)
NAMES = {ONE.bytes: "t"}


def test_a_request_is_read_back_by_kafka_python() -> None:
    sent = encode_fetch_by_id(
        {
            ("t", 0): FetchPartition(5, 2, 100, topic_id=ONE),
            ("u", 3): FetchPartition(7, -1, 200, topic_id=TWO),
            ("t", 200): FetchPartition(1 << 40, 0, 300, topic_id=ONE),
        },
        [(1, TWO), (2, TWO)],
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        isolation=1,
        session_id=42,
        session_epoch=3,
        rack="r1",
    )
    assert sent[0] == 0, "the tagged fields of the header"
    request = FetchRequest.decode(sent[1:], version=FETCH_BY_ID_VERSION)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 42, 3)
    assert (request.replica_id, request.rack_id) == (-1, "r1")
    wanted = [
        (topic.topic_id, p.partition, p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes)
        for topic in request.topics
        for p in topic.partitions
    ]
    assert wanted == [(ONE, 0, 5, 2, 100), (ONE, 200, 1 << 40, 0, 300), (TWO, 3, 7, -1, 200)]
    gone = [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data]
    assert gone == [(TWO, [1, 2])]


def response() -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData
    aborted = data.AbortedTransaction
    good = data(
        partition_index=1,
        error_code=0,
        high_watermark=100,
        last_stable_offset=90,
        log_start_offset=5,
        aborted_transactions=[aborted(producer_id=7, first_offset=60)],
        preferred_read_replica=-1,
        records=b"bytes" * 100,
    )
    failed = data(
        partition_index=2,
        error_code=100,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        preferred_read_replica=4,
        records=None,
        # A tagged field, which is skipped.
        current_leader=data.LeaderIdAndEpoch(leader_id=3, leader_epoch=9),
    )
    made = FetchResponse(
        throttle_time_ms=11,
        error_code=0,
        session_id=9,
        responses=[
            topic(topic_id=ONE, partitions=[good, failed]),
            topic(topic_id=TWO, partitions=[good]),
        ],
    )
    return b"\0" + bytes(made.encode(version=FETCH_BY_ID_VERSION))


def test_a_response_written_by_kafka_python_is_read() -> None:
    parsed = parse_fetch_by_id(memoryview(response()), NAMES)
    assert (parsed.throttle_ms, parsed.error, parsed.session_id) == (11, 0, 9)
    first, second = parsed.partitions
    assert TWO.bytes not in NAMES, "it was not requested, and is left out"
    assert (first.topic, first.partition, first.error) == ("t", 1, 0)
    assert (first.high_watermark, first.last_stable_offset, first.log_start_offset) == (100, 90, 5)
    assert first.aborted == ((7, 60),)
    assert bytes(first.records) == b"bytes" * 100
    assert (second.error, second.preferred_replica, len(second.records)) == (100, 4, 0)


@given(st.integers(0, len(response()) - 1))
def test_a_cut_off_response_is_refused(size: int) -> None:
    with pytest.raises(CorruptData):
        parse_fetch_by_id(memoryview(response())[:size], NAMES)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_response_or_refused(data: bytes) -> None:
    with suppress(CorruptData):
        parse_fetch_by_id(memoryview(data), NAMES)
