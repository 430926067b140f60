"""Collect source offsets of one connector and store them in flushes.

Double-buffered, like Java's OffsetStorageWriter: offsets that arrive during a flush wait for the
next one, and offsets of a failed flush are flushed again unless there are newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from connect.errors import ConnectError
from connect.plugin import StoredOffset
from connect.storage.offset_codec import encode_key, encode_value
from connect.storage.offset_store import OffsetStore

__all__ = ["OffsetWriter"]


class OffsetWriter:
    """Collects and flushes offsets. Not thread-safe: used by one task's thread. Keeps them
    encoded.
    """

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._waiting: dict[bytes, bytes | None] = {}
        self._flushing: dict[bytes, bytes | None] | None = None

    @property
    def waiting(self) -> int:
        """The number of partitions with an offset that is not in a flush yet."""
        return len(self._waiting)

    def add(self, offsets: Iterable[StoredOffset]) -> None:
        """Add offsets to the next flush; a newer one of a partition replaces an older one."""
        for partition, offset in offsets:
            self._waiting[encode_key(self._connector, partition)] = encode_value(offset)

    def flush(self) -> Future[None]:
        """Store all waiting offsets. There is one flush at a time; end it with `flushed` or
        `failed`.
        """
        if self._flushing is not None:
            raise ConnectError("An offset flush is already in progress")
        self._flushing, self._waiting = self._waiting, {}
        return self._store.set(self._flushing)

    def flushed(self) -> None:
        """End a successful flush."""
        self._flushing = None

    def failed(self) -> None:
        """End a failed flush. Its offsets wait again, unless there are newer ones."""
        if self._flushing is not None:
            self._waiting = {**self._flushing, **self._waiting}
        self._flushing = None
