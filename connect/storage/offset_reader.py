"""Looks up the stored source offsets of one connector."""

from __future__ import annotations

from collections.abc import Sequence

from connect.clock import Deadline
from connect.plugin import SourceOffset, SourcePartition
from connect.storage.offset_codec import decode_value, encode_key
from connect.storage.offset_store import OffsetStore

__all__ = ["OffsetReader"]


class OffsetReader:
    """Reads through an `OffsetStore`; as safe for threads as that is."""

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector

    def offsets(
        self, partitions: Sequence[SourcePartition], deadline: Deadline
    ) -> list[SourceOffset | None]:
        """The offsets of these partitions, in their order; None where nothing is stored.

        Raises `DeadlineExceeded`, and `CorruptData` for an offset that is no JSON object.
        """
        keys = [encode_key(self._connector, partition) for partition in partitions]
        found = self._store.get(keys, deadline)
        return [decode_value(found.get(key)) for key in keys]

    def marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        """The `OffsetStore.marks` of these partitions, in their order; -1 if there is none."""
        keys = [encode_key(self._connector, partition) for partition in partitions]
        found = self._store.marks(keys)
        return [found.get(key, -1) for key in keys]
