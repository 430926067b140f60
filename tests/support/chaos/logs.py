"""Reading both clusters after a trial, with nothing of the mirror's: a client library for records,
and parsers of our own for what the mirror wrote, by docs/reference/offset-map.md and KIP-382."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.chaos.journal import fingerprint, identity
from tests.support.records.topics import unique

__all__ = [
    "Checkpoint",
    "Mark",
    "Page",
    "Record",
    "committed",
    "is_page",
    "marks",
    "parse_checkpoint",
    "parse_page",
    "read",
    "sessions",
    "targets",
]

_POLL_S = 1.0
_EMPTY_POLLS = 60
_COMMITTED_S = 30.0


@dataclass(frozen=True, slots=True)
class Record:
    """As a consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def mark(self) -> Mark:
        content = fingerprint(self.key, self.value, self.timestamp_ms, self.headers)
        return Mark(self.offset, identity(self.value or b""), content)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the checker keeps of a record. `value`: its identity. `content`: its fingerprint."""

    offset: int
    value: bytes
    content: int


def _record(message: Message) -> Record:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    assert key is None or isinstance(key, bytes)
    assert value is None or isinstance(value, bytes)
    pairs: list[tuple[str, bytes | None]] = [*(message.headers() or ())]
    return Record(offset, key, value, message.timestamp()[1], tuple(pairs))


def read(servers: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[Record]:
    """All records of a partition as it is now; under `committed` without aborted ones."""
    return list(_each(servers, topic, partition, committed=committed))


def marks(servers: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[Mark]:
    """As `read`, for logs of many megabytes."""
    return [record.mark for record in _each(servers, topic, partition, committed=committed)]


def _each(servers: str, topic: str, partition: int, *, committed: bool) -> Iterator[Record]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("checker"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    idle = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while idle < _EMPTY_POLLS:
            message = consumer.poll(_POLL_S)
            if message is None:
                idle += 1
            elif (error := message.error()) is None:
                idle = 0
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()
    raise TimeoutError(f"{topic}-{partition} could not be read to its end")


def committed(
    servers: str, group: str, partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Where a group stands in these partitions, as far as it does."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        answer = consumer.committed(wanted, timeout=_COMMITTED_S)
        return {(each.topic, each.partition): each.offset for each in answer if each.offset >= 0}
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the offset map: (source, target, length) of its segments."""

    topic: str
    partition: int
    first: int
    session: int
    end: int
    segments: tuple[tuple[int, int, int], ...]


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value
            value = shift = 0
    if shift:
        raise ValueError("a number is cut off")


def _key(data: bytes) -> tuple[str, int, int]:
    (size,) = struct.unpack_from(">h", data)
    partition, first = struct.unpack_from(">iq", data, 2 + size)
    return data[2 : 2 + size].decode(), partition, first


def is_page(key: bytes) -> bool:
    """Whether a record of the map's topic with this key is a page: it begins with a length. Other
    records begin with a negative number (docs/reference/offset-map.md)."""
    return key[0] < 0x80


def parse_page(key: bytes, value: bytes) -> Page:
    """Raises `ValueError` for what is no page by docs/reference/offset-map.md."""
    topic, partition, first = _key(key)
    version, session, target, end = struct.unpack_from(">hqqq", value)
    count, *numbers = _varints(value[26:])
    if version != 0 or len(numbers) != 3 * count:
        raise ValueError(f"version {version}, {len(numbers)} numbers for {count} segments")
    segments = []
    source = first
    for n in range(count):
        gap, zigzag, length = numbers[3 * n : 3 * n + 3]
        source += gap
        target += (zigzag >> 1) ^ -(zigzag & 1)
        segments.append((source, target, length))
        source += length
        target += length
    return Page(topic, partition, first, session, end, tuple(segments))


def sessions(pages: Iterable[Page]) -> list[tuple[int, int]]:
    """From which source offset to which, exclusive, each session's pages reach."""
    found: dict[int, tuple[int, int]] = {}
    for page in pages:
        first, end = found.get(page.session, (page.first, page.end))
        found[page.session] = (min(first, page.first), max(end, page.end))
    return list(found.values())


def targets(pages: Iterable[Page]) -> dict[int, int]:
    """Target offset by source offset. A session's pages replace everything at or after its first
    source offset."""
    found: dict[int, int] = {}
    sessions: dict[int, list[Page]] = {}
    for page in pages:
        sessions.setdefault(page.session, []).append(page)
    for _, own in sorted(sessions.items()):
        first = min(page.first for page in own)
        found = {source: target for source, target in found.items() if source < first}
        for page in own:
            for source, target, length in page.segments:
                found.update((source + n, target + n) for n in range(length))
    return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group stood on the source, and where that is on the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int


def parse_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Of KIP-382: group, topic and partition; version (INT16) and both offsets (INT64)."""
    (size,) = struct.unpack_from(">h", key)
    group, rest = key[2 : 2 + size].decode(), key[2 + size :]
    (size,) = struct.unpack_from(">h", rest)
    (partition,) = struct.unpack_from(">i", rest, 2 + size)
    _, upstream, downstream = struct.unpack_from(">hqq", value)
    return Checkpoint(group, rest[2 : 2 + size].decode(), partition, upstream, downstream)
