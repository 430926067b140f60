"""Encode and decode Fetch and Produce, the copier's hot path, without touching records.

Fetch v11 and Produce v8 are the newest versions with fixed-width (non-flexible) encodings; every
broker since Kafka 2.4 supports them. `fetch_by_id.py` has Fetch v13. All other requests use
kafka-python's message classes.

Pure functions on buffers. Malformed input always raises `CorruptData`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from connect.errors import CorruptData
from connect.topic_partition import TopicPartition, by_topic

__all__ = [
    "FETCH_API",
    "FETCH_VERSION",
    "PRODUCE_API",
    "PRODUCE_VERSION",
    "FetchPartition",
    "FetchResponse",
    "FetchedPartition",
    "ProducedPartition",
    "Reader",
    "TopicPartition",
    "encode_fetch",
    "encode_produce",
    "encode_request_header",
    "parse_fetch",
    "parse_produce",
]

PRODUCE_API = 0
PRODUCE_VERSION = 8
FETCH_API = 1
FETCH_VERSION = 11


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">ihhi")
_FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqqi")
_FETCH_RESPONSE_HEAD = struct.Struct(">ihii")
_FETCHED_PARTITION = struct.Struct(">ihqqqi")
_ABORTED = struct.Struct(">qq")
_FETCHED_TAIL = struct.Struct(">ii")
_PRODUCE_PARTITION = struct.Struct(">ii")
_PRODUCED_PARTITION = struct.Struct(">ihqqqi")


class FetchPartition(NamedTuple):
    """The fetch offset of one partition and the leader epoch that the client knows.

    `log` is not sent. The client changes this number when the log at `offset` is a different one,
    for example after the topic was re-created, so that it can recognise the answer to an older
    request. `topic_id` (None: not known) is sent in requests by ID only.
    """

    offset: int
    leader_epoch: int
    max_bytes: int
    log: int = 0
    topic_id: UUID | None = None


class FetchedPartition(NamedTuple):
    """One partition of a fetch response. `records` is a slice of the response's buffer."""

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    preferred_replica: int
    records: memoryview


class FetchResponse(NamedTuple):
    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]


class ProducedPartition(NamedTuple):
    """One partition of a produce response. `base_offset` is -1 on errors."""

    topic: str
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str | None


def encode_request_header(
    api: int, version: int, correlation_id: int, client_id: bytes, body_size: int
) -> bytes:
    """Encode the frame size and request header v1: `size int32 | api int16 | version int16 |
    correlation int32 | client id string`.
    """
    size = 10 + len(client_id) + body_size
    head = _REQUEST_HEADER.pack(size, api, version, correlation_id)
    return head + _INT16.pack(len(client_id)) + client_id


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def encode_fetch(
    partitions: Mapping[TopicPartition, FetchPartition],
    forgotten: Iterable[TopicPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation: int,
    session_id: int,
    session_epoch: int,
    rack: str,
) -> bytes:
    """Encode the body of a Fetch v11 request.

    In a fetch session (KIP-227) `partitions` holds only those that changed.
    """
    parts = [
        _FETCH_HEAD.pack(
            -1, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch
        )
    ]
    topics = by_topic(partitions)
    parts.append(_INT32.pack(len(topics)))
    for topic, numbers in topics.items():
        parts.append(_string(topic))
        parts.append(_INT32.pack(len(numbers)))
        for number in numbers:
            wanted = partitions[topic, number]
            parts.append(
                _FETCH_PARTITION.pack(
                    number, wanted.leader_epoch, wanted.offset, -1, wanted.max_bytes
                )
            )
    dropped = by_topic(forgotten)
    parts.append(_INT32.pack(len(dropped)))
    for topic, numbers in dropped.items():
        parts.append(_string(topic))
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    parts.append(_string(rack))
    return b"".join(parts)


class Reader:
    """A read position in a response. `struct` or `take` checks the bounds of every read."""

    __slots__ = ("at", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self.view, self.at)
        self.at += layout.size
        return fields

    def count(self, smallest: int) -> int:
        """Read an array's length, and check that the rest of the response can hold as many
        elements.
        """
        (count,) = self.unpack(_INT32)
        if count < 0 or count * smallest > len(self.view) - self.at:
            raise CorruptData(
                f"response of {len(self.view)} bytes has the invalid array length {count}"
            )
        return count

    def take(self, size: int) -> memoryview:
        end = self.at + size
        if size < 0 or end > len(self.view):
            raise CorruptData(
                f"field of {size} bytes at byte {self.at} exceeds the response of"
                f" {len(self.view)} bytes"
            )
        taken = self.view[self.at : end]
        self.at = end
        return taken

    def string(self) -> str:
        (size,) = self.unpack(_INT16)
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptData(
                f"the response has a string that is not valid UTF-8: {error}"
            ) from error

    def nullable_string(self) -> str | None:
        (size,) = self.unpack(_INT16)
        return None if size < 0 else str(self.take(size), "utf-8", "replace")


def parse_fetch(body: memoryview) -> FetchResponse:
    """Decode a Fetch v11 response body (what follows the correlation id).

    Raises:
        CorruptData: the bytes are not such a response.
    """
    try:
        return _parse_fetch(Reader(body))
    except struct.error as error:
        raise CorruptData(f"the fetch response is cut off: {error}") from error


def _parse_fetch(reader: Reader) -> FetchResponse:
    throttle_ms, error, session_id, topics = reader.unpack(_FETCH_RESPONSE_HEAD)
    if topics < 0:
        raise CorruptData(f"the fetch response has the invalid topic count {topics}")
    found: list[FetchedPartition] = []
    for _ in range(topics):
        topic = reader.string()
        for _ in range(reader.count(_FETCHED_PARTITION.size)):
            number, code, high, stable, start, aborted_count = reader.unpack(_FETCHED_PARTITION)
            aborted: tuple[tuple[int, int], ...] = ()
            if aborted_count > 0:
                raw = reader.take(aborted_count * _ABORTED.size)
                aborted = tuple(_ABORTED.iter_unpack(raw))
            preferred, size = reader.unpack(_FETCHED_TAIL)
            records = reader.take(max(size, 0))
            found.append(
                FetchedPartition(
                    topic, number, code, high, stable, start, aborted, preferred, records
                )
            )
    return FetchResponse(throttle_ms, error, session_id, found)


def encode_produce(
    batches: Mapping[TopicPartition, memoryview | bytearray],
    timeout_ms: int,
    transactional_id: str | None = None,
) -> tuple[list[memoryview | bytearray | bytes], int]:
    """Encode the body of a Produce v8 request with acks=all. Return the buffers to send and their
    size.

    A request has one batch for each partition, as the broker accepts no more. Batches are not
    copied.
    """
    name = _INT16.pack(-1) if transactional_id is None else _string(transactional_id)
    head = name + struct.pack(">hi", -1, timeout_ms)  # acks=all
    buffers: list[memoryview | bytearray | bytes] = []
    topics = by_topic(batches)
    pending = bytearray(head)
    pending += _INT32.pack(len(topics))
    size = 0
    for topic, numbers in topics.items():
        pending += _string(topic)
        pending += _INT32.pack(len(numbers))
        for number in numbers:
            batch = batches[topic, number]
            pending += _PRODUCE_PARTITION.pack(number, len(batch))
            buffers.append(pending)
            buffers.append(batch)
            size += len(pending) + len(batch)
            pending = bytearray()
    if pending:
        buffers.append(pending)
        size += len(pending)
    return buffers, size


def parse_produce(body: memoryview) -> tuple[list[ProducedPartition], int]:
    """Decode a Produce v8 response body. Return its partitions and the throttle time in ms.

    Raises:
        CorruptData: the bytes are not such a response.
    """
    reader = Reader(body)
    try:
        found = _parse_produced(reader)
        (throttle_ms,) = reader.unpack(_INT32)
    except struct.error as error:
        raise CorruptData(f"the produce response is cut off: {error}") from error
    return found, throttle_ms


def _parse_produced(reader: Reader) -> list[ProducedPartition]:
    found: list[ProducedPartition] = []
    for _ in range(reader.count(6)):
        topic = reader.string()
        for _ in range(reader.count(_PRODUCED_PARTITION.size)):
            number, code, base, append_time, start, errors = reader.unpack(_PRODUCED_PARTITION)
            first_reason = _record_errors(reader, errors)
            message = reader.nullable_string()
            found.append(
                ProducedPartition(
                    topic, number, code, base, append_time, start, message or first_reason
                )
            )
    return found


def _record_errors(reader: Reader, count: int) -> str | None:
    """Return the first message among a partition's record errors (KIP-467)."""
    first: str | None = None
    for _ in range(count):
        reader.unpack(_INT32)
        text = reader.nullable_string()
        first = first or text
    return first
