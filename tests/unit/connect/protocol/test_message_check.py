"""What brokers send is checked against the schema first: all else is `CorruptData`, at once."""

from __future__ import annotations

import contextlib
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from connect.errors import CorruptData
from connect.protocol.message_check import check_message

VERSIONS = range(14)
TOPIC = MetadataResponse.MetadataResponseTopic


def metadata(version: int, rack: str | None = None) -> bytes:
    partition = TOPIC.MetadataResponsePartition(
        version=version,
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[],
    )
    topic = TOPIC(
        version=version,
        error_code=0,
        name="topic",
        topic_id=uuid.UUID(int=9),
        is_internal=False,
        partitions=[partition],
    )
    broker = MetadataResponse.MetadataResponseBroker(
        version=version, node_id=1, host="host", port=9092, rack=rack
    )
    response = MetadataResponse(
        version=version,
        throttle_time_ms=0,
        brokers=[broker],
        cluster_id="cluster",
        controller_id=1,
        topics=[topic],
        error_code=0,
    )
    return bytes(response.encode())


def check(version: int, data: bytes, schema: Any = MetadataResponse) -> None:
    flexible = schema.flexible_version_q(version)
    check_message(schema._struct, version, memoryview(data), flexible=flexible)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_good_message_passes_in_every_version(version: int) -> None:
    check(version, metadata(version))
    check(version, metadata(version, "rack") + b"more")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_that_is_cut_off_does_not(version: int) -> None:
    data = metadata(version)
    for size in range(len(data)):
        with pytest.raises(CorruptData):
            check(version, data[:size])


@given(st.integers(0, 13), st.binary(max_size=120))
@settings(max_examples=300)
def test_what_passes_is_what_the_decoder_takes(version: int, data: bytes) -> None:
    try:
        check(version, data)
    except CorruptData:
        return
    with contextlib.suppress(UnicodeDecodeError):
        MetadataResponse.decode(data, version=version)


@given(st.integers(0, 13), st.data())
@settings(max_examples=300)
def test_a_flipped_byte_is_corrupt_or_decodes(version: int, data: st.DataObject) -> None:
    good = bytearray(metadata(version))
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        check(version, bytes(good))
    except CorruptData:
        return
    with contextlib.suppress(UnicodeDecodeError):
        MetadataResponse.decode(bytes(good), version=version)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, struct.pack(">i", -1)),  # no brokers at all, where there are always some
        (1, struct.pack(">i", -2)),
        (1, struct.pack(">i", 2**31 - 1)),
        (1, struct.pack(">iih", 1, 1, -2)),  # a host of -2 bytes
        (9, b"\0" * 4 + b"\0"),
        (9, b"\0" * 4 + b"\xff" * 9),
    ],
)
def test_lengths_that_cannot_be(version: int, data: bytes) -> None:
    with pytest.raises(CorruptData):
        check(version, data + bytes(100))


def test_a_number_without_an_end_costs_nothing() -> None:
    with pytest.raises(CorruptData, match="longer than 5 bytes"):
        check(9, bytes(4) + b"\xff" * 20_000_000)


def test_tagged_fields_in_every_structure_are_refused() -> None:
    """Each would have the rest of the message copied."""
    key = struct.pack(">hhh", 1, 0, 1) + b"\1\x63\0"
    count = 40_000
    length = bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14])
    with pytest.raises(CorruptData, match="tagged fields"):
        check(3, struct.pack(">h", 0) + length + key * count + bytes(5), ApiVersionsResponse)


def test_a_tagged_field_of_another_size_is_refused() -> None:
    # ApiVersions v3: no error, no keys, no throttling; tag 1 (an int64) in 3 bytes.
    with pytest.raises(CorruptData, match="tagged field 1"):
        check(3, struct.pack(">hBi", 0, 1, 0) + b"\1\1\3" + bytes(8), ApiVersionsResponse)
