"""Batches with any attributes, as a broker could store them."""

from __future__ import annotations

from collections.abc import Sequence

import crc32c

from connect.protocol.compression import NONE, Data, compress
from connect.protocol.frame import (
    BATCH_HEADER,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from connect.protocol.record_codec import Record, encode_record

__all__ = ["encode_batch"]


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int,
    codec: int = NONE,
    level: int | None = None,
    last_offset_delta: int | None = None,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Encode `records` as a v2 batch with its CRC, as a broker could store it.

    Offset deltas follow the records' offsets, so gaps are possible. Set `last_offset_delta` if the
    batch's last records were compacted away. `log_append_time` (ms) sets the timestamp type and
    maxTimestamp; the records keep their own timestamps. `delete_horizon` is in ms (KIP-534).
    """
    stamps = [record.timestamp for record in records]
    base_timestamp = stamps[0] if stamps else -1
    attributes = codec | transactional * TRANSACTIONAL | control * CONTROL
    max_timestamp = max(stamps, default=-1)
    if delete_horizon is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    section: Data = b"".join(encode_record(r, base_offset, base_timestamp) for r in records)
    if records:
        section = compress(codec, section, level)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    data = bytearray().join((bytes(HEADER_SIZE), section))
    fields = [
        base_offset, len(data) - LOG_OVERHEAD, leader_epoch, 2, 0, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records),
    ]  # fmt: skip
    BATCH_HEADER.pack_into(data, 0, *fields)
    fields[4] = crc32c.crc32c(memoryview(data)[CRC_START:])
    BATCH_HEADER.pack_into(data, 0, *fields)
    return bytes(data)
