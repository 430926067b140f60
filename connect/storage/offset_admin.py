"""Lists, alters and resets all source offsets of one connector (KIP-875).

A stored offset is found by the exact bytes of its key, but users write partitions as JSON objects,
whose order means nothing. So partitions are matched by what they say, and keys that exist keep
their bytes.
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
    """Every source partition that has an offset, readable or not. Raises `DeadlineExceeded`."""
    return [partition for _, partition in _stored(store, connector, deadline)]


def read_offsets(
    store: OffsetStore, connector: str, deadline: Deadline
) -> list[tuple[SourcePartition, SourceOffset]]:
    """Every source partition and its offset, in the order of their keys.

    Raises `DeadlineExceeded`, and `CorruptData` naming the partition whose offset is not one.
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
    """Store these offsets; an offset of None deletes. Others stay.

    A partition that has no offset yet gets its fields in the order in which Java writes what a
    user gave it (a hash map's). Raises `DeadlineExceeded` when storing took too long: it may have
    happened; and what the store raises.
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
    # Asking for nothing reads to the end: what others stored belongs to the answer.
    store.get([], deadline)
    stored = []
    for key in sorted(store.partitions_of(connector)):
        decoded = decode_key(key)
        if decoded is not None:
            stored.append((key, decoded[1]))
    return stored


def _content(partition: SourcePartition) -> bytes:
    """A key that is equal for equal partitions; 1, 1.0 and true differ."""
    return json_codec.encode(dict(sorted(partition.items())))
