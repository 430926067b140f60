"""Stores the results of a backfill where the live flow stores its own: in the same topics and
formats.

After each piece it writes map pages, then source offsets, each acknowledged before the next, and
also offset syncs. Before it stores offsets it checks whether another program has stored different
ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from connect.protocol.messages import TopicPartition
from connect.storage.offset_codec import decode_value, encode_key
from connect.storage.offset_store import KafkaOffsetStore
from connect.storage.offset_writer import OffsetWriter
from connectors.mirror.backfill.errors import FlowIsRunning
from connectors.mirror.copy.range_copier import CopiedRange
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.offsets.offset_sync_writer import (
    OffsetSyncWriter,
    Reached,
    position_after,
    source_partition,
)

__all__ = ["BackfillProgressStore"]

T = TypeVar("T")

_START_S = 120.0
_STORE_S = 60.0
_CLOSE_S = 10.0
_TURN_S = 0.02


class BackfillProgressStore:
    """Call `start`, then the rest, then `close`, all on one thread."""

    def __init__(self, flow: DedicatedFlow) -> None:
        self._flow = flow
        config = flow.config
        self._connector = config.name
        self._alias = config.source_cluster_alias
        properties = flow.client("backfill-offsets")
        self._store = KafkaOffsetStore(flow.offsets_topic, properties, read_committed=True)
        self._writer = OffsetWriter(self._store, self._connector)
        self._books: OffsetSyncWriter | None = None
        self._expected: dict[TopicPartition, int | None] = {}

    def start(self) -> None:
        """Open the offsets topic; create it if it is missing."""
        self._store.start(Deadline(_START_S))

    def begin(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """`positions`: the stored offsets that were found; None: unknown."""
        self._expected = dict(positions)
        self._books = OffsetSyncWriter(self._flow.config, None)

    def close(self) -> None:
        """May be called again."""
        if self._books is not None:
            self._books.close()
            self._books = None
        self._store.stop(Deadline(_CLOSE_S))

    def poll(self) -> None:
        """Handle delivery reports. Call often."""
        if self._books is not None:
            self._books.poll()

    def add(self, lines: Iterable[CopiedRange], reached: Iterable[Reached]) -> None:
        """Store a result; return when it is acknowledged. Raises `FlowIsRunning` if another program
        has stored other offsets meanwhile, and the errors of writing."""
        books = self._books
        assert books is not None, "begin was not called"
        runs: dict[TopicPartition, list[CopiedRange]] = defaultdict(list)
        for line in lines:
            runs[line.source].append(line)
        for source, of_it in runs.items():
            for line in of_it:
                books.copied(source, [(line.source_start, line.records)], line.target_start)
        moved = [each for each in reached if each.position > 0 or self._expected.get(each.source)]
        if not moved:
            return
        self._refuse_others(moved)
        offsets = self._await(books.prepare(moved), "writing pages of the offset map")
        self._writer.add(offsets)
        self._flush()
        for each in moved:
            self._expected[each.source] = each.position
        books.committed()

    def _flush(self) -> None:
        stored = self._writer.flush()
        try:
            self._await(stored, "storing source offsets")
        except BaseException:
            self._writer.failed()
            raise
        self._writer.flushed()

    def _refuse_others(self, moved: Iterable[Reached]) -> None:
        keys = {
            encode_key(self._connector, source_partition(self._alias, each.source)): each.source
            for each in moved
        }
        found = self._store.get(keys, Deadline(_STORE_S))
        for key, source in keys.items():
            now = position_after(decode_value(found.get(key)))
            if source in self._expected and now != self._expected[source]:
                raise FlowIsRunning(
                    f"{source[0]}-{source[1]}: somebody else has stored offset {now}, where the "
                    f"backfill had stored {self._expected[source]}: {self._flow.name} was started. "
                    "Stop its workers, and start the backfill again: it goes on from what is "
                    "stored; connect-mirror-audit tells what was copied twice meanwhile"
                )

    def _await(self, future: Future[T], what: str) -> T:
        """Wait, and handle delivery reports, without which nothing would complete."""
        deadline = Deadline(_STORE_S)
        while not future.done():
            if deadline.expired():
                raise DeadlineExceeded(f"{what} took longer than {_STORE_S:.0f} s")
            self.poll()
            wait([future], _TURN_S)
        return future.result(timeout=0)
