"""Golden bytes of Kafka 4.3.1, and what decoding refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=50)

GOLDEN = [
    (
        OffsetSync("topic1", 3, 5, 7),
        "0006746f7069633100000003",
        "00000000000000050000000000000007",
        "OffsetSync{topicPartition=topic1-3, upstreamOffset=5, downstreamOffset=7}",
    ),
    (
        Checkpoint("g1", "A.t", 2, 10, 11, "md"),
        "000267310003412e7400000002",
        "0000000000000000000a000000000000000b00026d64",
        "Checkpoint{consumerGroupId=g1, topicPartition=A.t-2, upstreamOffset=10, "
        "downstreamOffset=11, metadata=md}",
    ),
    (
        Heartbeat("A", "B", 1700000000000),
        "000141000142",
        "00000000018bcfe56800",
        "Heartbeat{sourceClusterAlias=A, targetClusterAlias=B, timestamp=1700000000000}",
    ),
]


@pytest.mark.parametrize(("record", "key", "value", "text"), GOLDEN)
def test_bytes_and_text_are_javas(
    record: OffsetSync | Checkpoint | Heartbeat, key: str, value: str, text: str
) -> None:
    assert record.key().hex() == key
    assert record.value().hex() == value
    assert str(record) == text
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


def test_trailing_bytes_are_ignored() -> None:
    sync = OffsetSync("t", 0, 1, 2)
    assert OffsetSync.decode(sync.key() + b"x", sync.value() + b"yz") == sync


def test_another_version_is_read_as_version_0() -> None:
    assert Heartbeat.decode(bytes.fromhex("000141000142"), b"\x00\x09" + bytes(8)).timestamp_ms == 0


@pytest.mark.parametrize("cut", range(12))
def test_a_short_key_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptData, match="offset sync key"):
        OffsetSync.decode(bytes.fromhex(GOLDEN[0][1])[:cut], bytes(16))


def test_a_null_string_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="length -1"):
        Heartbeat.decode(b"\xff\xff", bytes(10))


def test_a_string_that_is_not_utf8_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="not valid UTF-8"):
        Heartbeat.decode(b"\x00\x01\xff\x00\x01B", bytes(10))


def test_a_string_longer_than_the_protocol_allows_is_refused() -> None:
    assert len(Checkpoint("g", "t", 0, 0, 0, "m" * 32767).value()) == 18 + 2 + 32767
    with pytest.raises(ValueError, match="32768"):
        Checkpoint("g", "t", 0, 0, 0, "m" * 32768).value()


@given(NAMES, NAMES, INT32, INT64, INT64, NAMES)
def test_checkpoints_survive_encoding(
    group: str, topic: str, partition: int, up: int, down: int, metadata: str
) -> None:
    checkpoint = Checkpoint(group, topic, partition, up, down, metadata)
    assert Checkpoint.decode(checkpoint.key(), checkpoint.value()) == checkpoint
