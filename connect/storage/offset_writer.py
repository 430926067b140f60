"""Collects source offsets of one connector and stores them, a flush at a time.

Double-buffered, as Java's OffsetStorageWriter: offsets that arrive during a flush wait for the
next one, and what a failed flush did not store is offered again unless something newer came.
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
    """Not safe for threads: one task's thread uses it. Offsets are kept encoded."""

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._waiting: dict[bytes, bytes | None] = {}
        self._flushing: dict[bytes, bytes | None] | None = None

    @property
    def waiting(self) -> int:
        """How many partitions have an offset that no flush has taken."""
        return len(self._waiting)

    def add(self, offsets: Iterable[StoredOffset]) -> None:
        """Keep these offsets for the next flush; a newer one of a partition replaces an older."""
        for partition, offset in offsets:
            self._waiting[encode_key(self._connector, partition)] = encode_value(offset)

    def flush(self) -> Future[None]:
        """Store everything waiting. One flush at a time: end it with `flushed` or `failed`."""
        if self._flushing is not None:
            raise ConnectError("An offset flush is already in progress")
        self._flushing, self._waiting = self._waiting, {}
        return self._store.set(self._flushing)

    def flushed(self) -> None:
        """The flush's future completed well."""
        self._flushing = None

    def failed(self) -> None:
        """The flush failed: its offsets wait again, except where newer ones already do."""
        if self._flushing is not None:
            self._waiting = {**self._flushing, **self._waiting}
        self._flushing = None
