"""Look up the stored source offsets of one connector."""

from __future__ import annotations

from collections.abc import Sequence

from connect.clock import Deadline
from connect.plugin import SourceOffset, SourcePartition
from connect.storage.offset_codec import decode_value, encode_key
from connect.storage.offset_store import OffsetStore

__all__ = ["OffsetReader"]


class OffsetReader:
    """Reads through an `OffsetStore`, and is thread-safe if that store is."""

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._marks: dict[bytes, int] = {}

    def offsets(
        self, partitions: Sequence[SourcePartition], deadline: Deadline
    ) -> list[SourceOffset | None]:
        """Return the offsets of these partitions in order, None if there is none.

        Raises `DeadlineExceeded`, and `CorruptData` for an offset that is not a JSON object.
        """
        keys = [encode_key(self._connector, partition) for partition in partitions]
        # Before the offsets: a write in between must not count as one that was seen.
        marks = self._store.marks(keys)
        found = self._store.get(keys, deadline)
        self._marks.update((key, marks.get(key, -1)) for key in keys)
        return [decode_value(found.get(key)) for key in keys]

    def marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        """Return the `OffsetStore.marks` of these partitions in order, -1 if there is none: as of
        the last `offsets`, as somebody may have stored others since.
        """
        keys = [encode_key(self._connector, partition) for partition in partitions]
        return [self._marks.get(key, -1) for key in keys]
