"""Source writers: batches of records with numbers, in transactions or not, and compaction.

Record `number` of a partition has the key `<partition>` and the value `<number>` with padding, so
that it is recognised wherever it is copied to. Encoded batches are kept from one run to the next:
encoding costs more than all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from connect.protocol.batches import LOG_APPEND_TIME, read_headers, stamp_for_produce
from connect.protocol.compression import NONE
from connect.protocol.records import Record, iter_records
from tests.simulation.kafka.log import Batch, with_attributes
from tests.support.records.batches import encode_batch
from tests.support.records.record_sets import legacy_message, legacy_wrapper

__all__ = [
    "compacted",
    "data_batch",
    "empty_control_batch",
    "numbers_of",
    "old_messages",
    "record_value",
]

_TIMESTAMP_MS = 1_700_000_000_000
_HEADER_SIZE = 61


def record_value(number: int, size: int) -> bytes:
    """The value of a record: its number, a colon, and padding up to `size` bytes."""
    return f"{number}:".encode().ljust(size, b"x")


@lru_cache(maxsize=20_000)
def _encoded(partition: int, first: int, count: int, size: int, codec: int) -> bytes:
    key = str(partition).encode()
    records = [
        Record(n, _TIMESTAMP_MS + first + n, key, record_value(first + n, size))
        for n in range(count)
    ]
    return encode_batch(records, base_offset=0, codec=codec)


def data_batch(
    partition: int,
    first: int,
    count: int,
    *,
    size: int = 10,
    codec: int = 0,
    producer: int = -1,
    producer_epoch: int = 0,
    log_append_time: bool = False,
) -> bytes:
    """The records `first` to `first + count - 1`; with a producer id, in its transaction."""
    data = _encoded(partition, first, count, size, codec)
    if log_append_time:
        data = with_attributes(data, LOG_APPEND_TIME, _TIMESTAMP_MS + first)
    if producer >= 0:
        stamped = bytearray(data)
        stamp_for_produce(memoryview(stamped), producer, producer_epoch, 0, transactional=True)
        data = bytes(stamped)
    return data


def old_messages(
    partition: int,
    numbers: Mapping[int, int],
    *,
    size: int,
    magic: int,
    codec: int,
) -> list[bytes]:
    """Records as entries of magic 0 or 1: a message each, or with a codec one set of messages.
    `numbers`: by their offsets, ascending."""
    key = str(partition).encode()
    records = [
        Record(offset, _TIMESTAMP_MS + number, key, record_value(number, size))
        for offset, number in numbers.items()
    ]
    if codec == NONE:
        return [legacy_message(record, magic) for record in records]
    return [legacy_wrapper(records, magic, codec)]


_known: dict[bytes, tuple[int, ...]] = {}
_MOST_KNOWN = 50_000


def numbers_of(data: bytes) -> tuple[int, ...]:
    """The numbers of a batch's records, in order."""
    section = data[_HEADER_SIZE:]
    found = _known.get(section)
    if found is None:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        found = tuple(_number_of(record) for record in iter_records(data))
        _known[section] = found
    return found


def _number_of(record: Record) -> int:
    """Its number. Raises AssertionError if its value is not the one that was written."""
    value = record.value or b""
    number = int(value.split(b":", 1)[0])
    assert value == record_value(number, len(value)), f"record {number} was damaged: {value!r}"
    return number


def compacted(batch: Batch, keep: Sequence[int]) -> bytes:
    """The batch as compaction leaves it: only the records with these indexes, offsets as before."""
    records = list(iter_records(batch.data))
    (header,) = read_headers(memoryview(batch.data))
    return encode_batch(
        [records[index] for index in keep],
        base_offset=batch.base,
        codec=header.attributes & 7,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=batch.epoch,
        producer_id=batch.producer,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.sequence,
        transactional=batch.transactional,
    )


def empty_control_batch(batch: Batch) -> bytes:
    """A marker as compaction may keep it: without its record."""
    return encode_batch(
        [],
        base_offset=batch.base,
        last_offset_delta=0,
        leader_epoch=batch.epoch,
        producer_id=batch.producer,
        producer_epoch=batch.producer_epoch,
        transactional=True,
        control=True,
    )
