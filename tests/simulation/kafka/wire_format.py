"""The broker's half of Produce v8, Fetch v11 and Fetch v13: requests decoded, responses encoded."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from connect.protocol.fetch_by_id import FETCH_BY_ID_VERSION
from connect.protocol.varint import encode_unsigned, read_unsigned

__all__ = [
    "FetchRequest",
    "FetchedPart",
    "ProduceRequest",
    "ProducedPart",
    "encode_fetched",
    "encode_produced",
    "parse_fetch_request",
    "parse_header",
    "parse_produce_request",
]

Key = tuple[str, int]
Asked = tuple[str | UUID, int]
"""A partition as a fetch names it."""
_Wanted = dict[Asked, tuple[int, int, int]]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_FETCH_HEAD = struct.Struct(">iiiibii")
_WANTED = struct.Struct(">iiqqi")
_WANTED_BY_ID = struct.Struct(">iiqiqi")
_FETCHED = struct.Struct(">ihqqqi")
_FETCHED_BY_ID = struct.Struct(">ihqqq")
_PAIR = struct.Struct(">qq")
_TAIL = struct.Struct(">ii")
_PRODUCED = struct.Struct(">ihqqqi")


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    timeout_ms: int
    batches: dict[Key, memoryview]


class ProducedPart(NamedTuple):
    key: Key
    error: int
    base: int
    log_start: int


class FetchRequest(NamedTuple):
    """`wanted`: partition -> (leader epoch, offset, most bytes). `by_id`: it names topics by their
    IDs."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    wanted: _Wanted
    forgotten: list[Asked]
    by_id: bool


class FetchedPart(NamedTuple):
    """`topic_id`: as it was asked for; None: by its name."""

    key: Key
    error: int
    high: int
    stable: int
    log_start: int
    aborted: list[tuple[int, int]] | None
    records: bytes
    topic_id: UUID | None = None


def parse_header(frame: memoryview) -> tuple[int, int, int, int]:
    """(api, version, correlation id, where the body begins)."""
    api, version, correlation = _HEAD.unpack_from(frame)
    (size,) = _INT16.unpack_from(frame, 8)
    return api, version, correlation, 10 + max(0, size)


def _string(frame: memoryview, at: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(frame, at)
    at += 2
    if size < 0:
        return None, at
    return str(frame[at : at + size], "utf-8"), at + size


def parse_produce_request(frame: memoryview, at: int) -> ProduceRequest:
    transactional_id, at = _string(frame, at)
    acks, timeout_ms, topics = struct.unpack_from(">hii", frame, at)
    assert acks == -1
    at += 10
    batches: dict[Key, memoryview] = {}
    for _ in range(topics):
        topic, at = _string(frame, at)
        (count,) = _INT32.unpack_from(frame, at)
        at += 4
        for _ in range(count):
            number, size = _TAIL.unpack_from(frame, at)
            at += 8
            batches[topic or "", number] = frame[at : at + size]
            at += size
    assert at == len(frame), "a produce request with bytes left over"
    return ProduceRequest(transactional_id, timeout_ms, batches)


def parse_fetch_request(frame: memoryview, at: int, version: int) -> FetchRequest:
    by_id = version == FETCH_BY_ID_VERSION
    if by_id:
        at = _no_tags(frame, at)
    (_, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch) = (
        _FETCH_HEAD.unpack_from(frame, at)
    )
    parse = _parse_asked_by_id if by_id else _parse_asked
    wanted, forgotten = parse(frame, at + _FETCH_HEAD.size)
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        wanted,
        forgotten,
        by_id=by_id,
    )


def _parse_asked(frame: memoryview, at: int) -> tuple[_Wanted, list[Asked]]:
    """Parse the partitions by name: those that are wanted, and those that the session forgets."""
    wanted: _Wanted = {}
    (topics,) = _INT32.unpack_from(frame, at)
    at += 4
    for _ in range(topics):
        topic, at = _string(frame, at)
        (count,) = _INT32.unpack_from(frame, at)
        at += 4
        for _ in range(count):
            number, epoch, offset, _, most = _WANTED.unpack_from(frame, at)
            at += _WANTED.size
            wanted[topic or "", number] = (epoch, offset, most)
    forgotten: list[Asked] = []
    (topics,) = _INT32.unpack_from(frame, at)
    at += 4
    for _ in range(topics):
        topic, at = _string(frame, at)
        (count,) = _INT32.unpack_from(frame, at)
        numbers = struct.unpack_from(f">{count}i", frame, at + 4)
        at += 4 + 4 * count
        forgotten += [(topic or "", number) for number in numbers]
    return wanted, forgotten


def _parse_asked_by_id(frame: memoryview, at: int) -> tuple[_Wanted, list[Asked]]:
    wanted: _Wanted = {}
    topics, at = _compact_count(frame, at)
    for _ in range(topics):
        topic_id = UUID(bytes=bytes(frame[at : at + 16]))
        count, at = _compact_count(frame, at + 16)
        for _ in range(count):
            number, epoch, offset, _, _, most = _WANTED_BY_ID.unpack_from(frame, at)
            at = _no_tags(frame, at + _WANTED_BY_ID.size)
            wanted[topic_id, number] = (epoch, offset, most)
        at = _no_tags(frame, at)
    forgotten: list[Asked] = []
    topics, at = _compact_count(frame, at)
    for _ in range(topics):
        topic_id = UUID(bytes=bytes(frame[at : at + 16]))
        count, at = _compact_count(frame, at + 16)
        forgotten += [(topic_id, n) for n in struct.unpack_from(f">{count}i", frame, at)]
        at = _no_tags(frame, at + 4 * count)
    size, at = _compact_count(frame, at)
    assert _no_tags(frame, at + size) == len(frame), "a fetch request with bytes left over"
    return wanted, forgotten


def _compact_count(frame: memoryview, at: int) -> tuple[int, int]:
    size, at = read_unsigned(frame, at, 5)
    return size - 1, at


def _no_tags(frame: memoryview, at: int) -> int:
    assert frame[at] == 0, "a fetch request with tagged fields"
    return at + 1


def _by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in keys:
        topics.setdefault(topic, []).append(number)
    return topics


def _encode_string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def encode_produced(correlation: int, parts: list[ProducedPart], throttle_ms: int) -> list[bytes]:
    by_key = {part.key: part for part in parts}
    topics = _by_topic(by_key)
    out = [_TAIL.pack(correlation, len(topics))]
    for topic, numbers in topics.items():
        out += (_encode_string(topic), _INT32.pack(len(numbers)))
        for number in numbers:
            part = by_key[topic, number]
            out.append(_PRODUCED.pack(number, part.error, part.base, -1, part.log_start, 0))
            out.append(b"\xff\xff")
    out.append(_INT32.pack(throttle_ms))
    return out


def encode_fetched(
    correlation: int,
    parts: list[FetchedPart],
    throttle_ms: int,
    error: int,
    session_id: int,
    *,
    by_id: bool,
) -> list[bytes]:
    if by_id:
        return _encode_fetched_by_id(correlation, parts, throttle_ms, error, session_id)
    by_key = {part.key: part for part in parts}
    topics = _by_topic(by_key)
    out = [struct.pack(">iihii", correlation, throttle_ms, error, session_id, len(topics))]
    for topic, numbers in topics.items():
        out += (_encode_string(topic), _INT32.pack(len(numbers)))
        for number in numbers:
            part = by_key[topic, number]
            count = -1 if part.aborted is None else len(part.aborted)
            out.append(
                _FETCHED.pack(number, part.error, part.high, part.stable, part.log_start, count)
            )
            out += [_PAIR.pack(*each) for each in part.aborted or ()]
            out += (_TAIL.pack(-1, len(part.records)), part.records)
    return out


def _encode_fetched_by_id(
    correlation: int, parts: list[FetchedPart], throttle_ms: int, error: int, session_id: int
) -> list[bytes]:
    topics: dict[UUID, list[FetchedPart]] = {}
    for part in parts:
        assert part.topic_id is not None
        topics.setdefault(part.topic_id, []).append(part)
    out = [struct.pack(">ixihi", correlation, throttle_ms, error, session_id)]
    out.append(encode_unsigned(len(topics) + 1))
    for topic_id, mine in topics.items():
        out += (topic_id.bytes, encode_unsigned(len(mine) + 1))
        for part in mine:
            head = (part.key[1], part.error, part.high, part.stable, part.log_start)
            out.append(_FETCHED_BY_ID.pack(*head))
            out.append(encode_unsigned(0 if part.aborted is None else len(part.aborted) + 1))
            out += [_PAIR.pack(*each) + b"\0" for each in part.aborted or ()]
            out += (_INT32.pack(-1), encode_unsigned(len(part.records) + 1), part.records, b"\0")
        out.append(b"\0")
    out.append(b"\0")
    return out
