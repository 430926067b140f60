"""List, alter and reset all source offsets of one connector (KIP-875).

A stored offset is found by the exact bytes of its key, but users write partitions as JSON objects
whose field order has no meaning. Partitions are therefore compared by content, and existing keys
keep their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from connect.clock import Deadline
from connect.data import json_codec
from connect.data.java_map import hash_order
from connect.errors import CorruptData, DeadlineExceeded
from connect.plugin import SourceOffset, SourcePartition, StoredOffset
from connect.storage.offset_codec import decode_key, decode_value, encode_key, encode_value
from connect.storage.offset_store import OffsetStore

__all__ = ["read_offsets", "stored_partitions", "write_offsets"]


def stored_partitions(
    store: OffsetStore, connector: str, deadline: Deadline
) -> list[SourcePartition]:
    """Return every source partition that has an offset, readable or not. Raises
    `DeadlineExceeded`.
    """
    return [partition for _, partition in _stored(store, connector, deadline)]


def read_offsets(
    store: OffsetStore, connector: str, deadline: Deadline
) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return every source partition with its offset, ordered by key.

    Raises `DeadlineExceeded`, and `CorruptData` with the partition whose offset is invalid.
    """
    stored = _stored(store, connector, deadline)
    values = store.get([key for key, _ in stored], deadline)
    found = []
    for key, partition in stored:
        try:
            offset = decode_value(values.get(key))
        except CorruptData as error:
            raise CorruptData(
                f"Cannot read the offset of partition {json_codec.encode(partition).decode()} of"
                f" connector {connector}: {error}. Reset this offset to continue without it"
            ) from error
        if offset is not None:
            found.append((partition, offset))
    return found


def write_offsets(
    store: OffsetStore, connector: str, offsets: Sequence[StoredOffset], deadline: Deadline
) -> None:
    """Store these offsets; None deletes one. Others stay.

    A new partition gets its fields in the order in which Java writes a user's JSON object (a hash
    map's). Raises `DeadlineExceeded` if the write took too long but may have succeeded, and errors
    of the store.
    """
    keys: dict[bytes, list[bytes]] = {}
    for key, partition in _stored(store, connector, deadline):
        keys.setdefault(_content(partition), []).append(key)
    values: dict[bytes, bytes | None] = {}
    for partition, offset in offsets:
        new_key = encode_key(connector, hash_order(partition))
        value = encode_value(None if offset is None else hash_order(offset))
        for key in keys.get(_content(partition), [new_key]):
            values[key] = value
    try:
        store.set(values).result(deadline.remaining())
    except FutureTimeout as error:
        raise DeadlineExceeded(
            f"Storing offsets of connector {connector} did not finish in time"
        ) from error


def _stored(
    store: OffsetStore, connector: str, deadline: Deadline
) -> list[tuple[bytes, SourcePartition]]:
    # An empty query still reads to the end, so that the result includes offsets of other writers.
    store.get([], deadline)
    stored = []
    for key in sorted(store.partitions_of(connector)):
        decoded = decode_key(key)
        if decoded is not None:
            stored.append((key, decoded[1]))
    return stored


def _content(partition: SourcePartition) -> bytes:
    """Return a key that is equal for equal partitions; 1, 1.0 and true differ."""
    return json_codec.encode(dict(sorted(partition.items())))
