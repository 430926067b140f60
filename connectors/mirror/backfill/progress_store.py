"""Stores the results of a backfill in the live flow's topics and formats.

After each piece it writes the offset map's pages, waits for their acknowledgement, and then writes
the source offsets. It also writes offset syncs. Before it stores offsets it checks whether another
process has stored other offsets.
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
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import Reached, position_after, source_partition

__all__ = ["BackfillProgressStore"]

T = TypeVar("T")

_START_S = 120.0
_STORE_S = 60.0
_CLOSE_S = 10.0
_TURN_S = 0.02


class BackfillProgressStore:
    """Stores results. Call `start`, then the other methods, then `close`, all from one thread."""

    def __init__(self, flow: DedicatedFlow) -> None:
        self._flow = flow
        config = flow.config
        self._connector = config.name
        self._alias = config.source_cluster_alias
        properties = flow.client("backfill-offsets")
        self._store = KafkaOffsetStore(flow.offsets_topic, properties, read_committed=True)
        self._writer = OffsetWriter(self._store, self._connector)
        self._sync_writer: OffsetSyncWriter | None = None
        self._expected: dict[TopicPartition, int | None] = {}

    def start(self) -> None:
        """Open the offsets topic; create it if it is missing."""
        self._store.start(Deadline(_START_S))

    def begin(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set the stored offsets that were found; None: unknown."""
        self._expected = dict(positions)
        self._sync_writer = OffsetSyncWriter(self._flow.config, None)

    def close(self) -> None:
        """Release all clients. May be called repeatedly."""
        if self._sync_writer is not None:
            self._sync_writer.close()
            self._sync_writer = None
        self._store.stop(Deadline(_CLOSE_S))

    def poll(self) -> None:
        """Handle delivery reports. Must be called often."""
        if self._sync_writer is not None:
            self._sync_writer.poll()

    def add(self, lines: Iterable[CopiedRange], reached: Iterable[Reached]) -> None:
        """Store a result and return once it is acknowledged.

        Raises `FlowIsRunning` if another process has stored other offsets meanwhile, and the errors
        of writing.
        """
        sync_writer = self._sync_writer
        assert sync_writer is not None, "call begin before add"
        runs: dict[TopicPartition, list[CopiedRange]] = defaultdict(list)
        for line in lines:
            runs[line.source].append(line)
        for source, of_it in runs.items():
            for line in of_it:
                sync_writer.copied(source, [(line.source_start, line.records)], line.target_start)
        moved = [each for each in reached if each.position > 0 or self._expected.get(each.source)]
        if not moved:
            return
        self._refuse_others(moved)
        offsets = self._await(sync_writer.prepare(moved), "writing pages of the offset map")
        self._writer.add(offsets)
        self._flush()
        for each in moved:
            self._expected[each.source] = each.position
        sync_writer.committed()

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
                    f"{source[0]}-{source[1]}: the stored offset is {now}, but the backfill "
                    f"stored {self._expected[source]}: {self._flow.name} was started meanwhile. "
                    "Stop its workers, then start the backfill again; it continues at the "
                    "stored offset. connect-mirror-audit shows which records were copied twice"
                )

    def _await(self, future: Future[T], what: str) -> T:
        """Wait for `future`, and meanwhile handle the delivery reports that complete it."""
        deadline = Deadline(_STORE_S)
        while not future.done():
            if deadline.expired():
                raise DeadlineExceeded(f"{what} took longer than {_STORE_S:.0f} s")
            self.poll()
            wait([future], _TURN_S)
        return future.result(timeout=0)
