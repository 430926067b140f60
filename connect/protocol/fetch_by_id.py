"""Encode and decode Fetch v13, which names topics by their IDs (KIP-516).

A broker answers such a fetch only from the topic with that ID, and never from another one that was
created under its name since. Brokers since Kafka 3.1 support it. Like `messages.py`: pure, without
touching records, and malformed input always raises `CorruptData`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from uuid import UUID

from connect.errors import CorruptData
from connect.protocol.messages import (
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    Reader,
    TopicPartition,
)
from connect.protocol.varint import encode_unsigned, read_unsigned

__all__ = ["FETCH_BY_ID_VERSION", "encode_fetch_by_id", "parse_fetch_by_id"]

FETCH_BY_ID_VERSION = 13

_HEAD = struct.Struct(">iiiibii")
_PARTITION = struct.Struct(">iiqiqi")
_RESPONSE_HEAD = struct.Struct(">ihi")
_FETCHED = struct.Struct(">ihqqqBi")
"""Up to the preferred replica, if no transaction was aborted."""
_AFTER_COUNT = 5
_NOTHING = 1
"""The size of an empty array or string; that of null is 0."""
_ABORTED = struct.Struct(">qq")
_PREFERRED = struct.Struct(">i")
_NO_TAGS = b"\0"
_ID_BYTES = 16
_VARINT_BYTES = 5


def encode_fetch_by_id(
    partitions: Mapping[TopicPartition, FetchPartition],
    forgotten: Iterable[tuple[int, UUID]],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: int,
    session_id: int,
    session_epoch: int,
    rack: str,
) -> bytes:
    """Encode what follows the client ID in a Fetch v13 request: the end of its header, and its
    body. Every partition has a topic ID. `forgotten`: partition numbers and topic IDs."""
    parts = [
        _NO_TAGS,
        _HEAD.pack(-1, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch),
    ]
    topics: dict[UUID | None, list[tuple[int, FetchPartition]]] = {}
    for (_, number), wanted in partitions.items():
        topics.setdefault(wanted.topic_id, []).append((number, wanted))
    parts.append(encode_unsigned(len(topics) + 1))
    for topic_id, numbers in topics.items():
        assert topic_id is not None, "a partition without a topic ID cannot be fetched by it"
        parts += (topic_id.bytes, encode_unsigned(len(numbers) + 1))
        for number, wanted in numbers:
            parts.append(
                _PARTITION.pack(
                    number, wanted.leader_epoch, wanted.offset, -1, -1, wanted.max_bytes
                )
            )
            parts.append(_NO_TAGS)
        parts.append(_NO_TAGS)
    dropped: dict[UUID, list[int]] = {}
    for number, topic_id in forgotten:
        dropped.setdefault(topic_id, []).append(number)
    parts.append(encode_unsigned(len(dropped) + 1))
    for topic_id, gone in dropped.items():
        parts += (topic_id.bytes, encode_unsigned(len(gone) + 1))
        parts += (struct.pack(f">{len(gone)}i", *gone), _NO_TAGS)
    name = rack.encode()
    parts += (encode_unsigned(len(name) + 1), name, _NO_TAGS)
    return b"".join(parts)


def parse_fetch_by_id(body: memoryview, names: Mapping[bytes, str]) -> FetchResponse:
    """Decode what follows the correlation ID in a Fetch v13 response. `names`: the topics of the
    IDs that were requested; others are left out.

    Raises:
        CorruptData: the bytes are not such a response.
    """
    try:
        return _parse(Reader(body), names)
    except (struct.error, IndexError) as error:
        raise CorruptData(f"the fetch response is cut off: {error}") from error


def _parse(reader: Reader, names: Mapping[bytes, str]) -> FetchResponse:
    _skip_tags(reader)
    throttle_ms, error, session_id = reader.unpack(_RESPONSE_HEAD)
    view = reader.view
    found: list[FetchedPartition] = []
    for _ in range(_count(reader, _ID_BYTES)):
        topic = names.get(bytes(reader.take(_ID_BYTES)))
        for _ in range(_count(reader, _FETCHED.size)):
            number, code, high, stable, start, aborted_size, preferred = reader.unpack(_FETCHED)
            aborted: tuple[tuple[int, int], ...] = ()
            if aborted_size > _NOTHING:
                reader.at -= _AFTER_COUNT
                aborted = tuple(_aborted(reader) for _ in range(_count(reader, _ABORTED.size)))
                (preferred,) = reader.unpack(_PREFERRED)
            size, reader.at = read_unsigned(view, reader.at, _VARINT_BYTES)
            records = reader.take(size - 1 if size else 0)
            if view[reader.at]:
                _skip_tags(reader)
            else:
                reader.at += 1
            if topic is not None:
                found.append(
                    FetchedPartition(
                        topic, number, code, high, stable, start, aborted, preferred, records
                    )
                )
        _skip_tags(reader)
    _skip_tags(reader)
    return FetchResponse(throttle_ms, error, session_id, found)


def _aborted(reader: Reader) -> tuple[int, int]:
    producer, first = reader.unpack(_ABORTED)
    _skip_tags(reader)
    return producer, first


def _unsigned(reader: Reader) -> int:
    value, reader.at = read_unsigned(reader.view, reader.at, _VARINT_BYTES)
    return value


def _size(reader: Reader) -> int:
    """Read a length, of which null and 0 are both nothing."""
    return max(0, _unsigned(reader) - 1)


def _count(reader: Reader, smallest: int) -> int:
    """Read an array's length, and check that the rest of the response can hold as many elements."""
    count = _size(reader)
    if count * smallest > len(reader.view) - reader.at:
        raise CorruptData(
            f"response of {len(reader.view)} bytes has the invalid array length {count}"
        )
    return count


def _skip_tags(reader: Reader) -> None:
    for _ in range(_unsigned(reader)):  # The end of the response ends a count that is too high.
        _unsigned(reader)
        reader.take(_unsigned(reader))
