"""An offset store without a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from connect.clock import Deadline
from connect.storage.offset_store import OffsetTable

__all__ = ["MemoryOffsetStore"]


class MemoryOffsetStore:
    """Offsets of this process only, for tests."""

    def __init__(self) -> None:
        self._table = OffsetTable()

    def start(self, deadline: Deadline) -> None:
        """Nothing to open."""

    def get(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        return self._table.get(keys)

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        for key, value in values.items():
            self._table.put(key, value)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def partitions_of(self, connector: str) -> frozenset[bytes]:
        return self._table.partitions_of(connector)

    def marks(self, keys: Iterable[bytes]) -> dict[bytes, int]:
        return self._table.marks(keys)

    def stop(self, deadline: Deadline) -> None:
        """Nothing to close."""
