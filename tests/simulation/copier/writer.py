"""Writes to one source partition, and does to its log what only its owner does: transactions,
compaction, retention."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.simulation.copier.plan import OldFormat, Plan
from tests.simulation.copier.truth import SourceTruth
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import ABORT, COMMIT, Batch, Log
from tests.simulation.kafka.partition import NO_LEADER, SimulatedPartition
from tests.simulation.kafka.writing import compacted, data_batch, empty_control_batch, old_messages

__all__ = ["SourceWriter"]

_MOST_OPEN = 2


class SourceWriter:
    """Of one partition."""

    def __init__(self, cluster: Cluster, key: tuple[str, int], plan: Plan) -> None:
        self.truth = SourceTruth()
        self.key = key
        self._cluster = cluster
        self._plan = plan
        self._rng: random.Random = cluster.rng
        self._open: dict[int, int] = {}
        """Producers with an open transaction, and their epochs."""
        self._idle: list[int] = []
        self._size = self._rng.choice((10, 10, 40, 200))
        self._written = 0

    @property
    def partition(self) -> SimulatedPartition | None:
        return self._cluster.find(self.key)

    def write(self) -> None:
        """A batch, or the end of a transaction."""
        partition = self.partition
        if partition is None or partition.leader == NO_LEADER:
            return
        rng = self._rng
        if self._open and rng.random() < 0.4:
            self.end_one(commit=rng.random() < 0.6)
            return
        count = rng.randrange(1, self._plan.largest_batch + 1)
        old = self._plan.old_format
        if old is not None and self._written < old.batches:
            self._written += 1
            self._write_old(partition, old, count)
            return
        producer = self._producer() if rng.random() < self._plan.transactions else -1
        data = data_batch(
            self.key[1],
            self.truth.next_number,
            count,
            size=self._size,
            codec=self._plan.codec,
            producer=producer,
            log_append_time=self._plan.log_append_time,
        )
        batch = self._cluster.write(self.key, data)
        self.truth.written(batch.base, count, in_transaction=producer >= 0)

    def _write_old(self, partition: SimulatedPartition, old: OldFormat, count: int) -> None:
        base = partition.log.end
        numbers = {base + n: self.truth.next_number + n for n in range(count)}
        for entry in self._old(old, numbers):
            self._cluster.write(self.key, entry)
        self.truth.written(base, count, in_transaction=False)

    def _producer(self) -> int:
        """One that writes in a transaction: one that is open, or another."""
        if len(self._open) >= _MOST_OPEN or (self._open and self._rng.random() < 0.5):
            return self._rng.choice(list(self._open))
        producer = self._idle.pop() if self._idle else self._cluster.new_producer_id()
        self._open[producer] = 0
        return producer

    def end_one(self, *, commit: bool) -> None:
        """Commit or abort an open transaction."""
        producer = self._rng.choice(list(self._open))
        del self._open[producer]
        partition = self.partition
        if partition is None:
            return
        log = partition.log
        first = log.open.get(producer)
        kind = COMMIT if commit else ABORT
        now_ms = self._cluster.time.now_ms()
        log.mark(producer, 0, kind, partition.epoch, now_ms)
        if first is not None:
            for batch in log.from_offset(first):
                if batch.producer == producer and not batch.control:
                    self.truth.decided(range(batch.base, batch.next), committed=commit)
        partition.replicate()
        self._cluster.moved_on(partition)
        self._idle.append(producer)

    def end_all(self) -> None:
        while self._open:
            self.end_one(commit=True)

    # What befalls the log.

    def delete_some(self) -> None:
        """Retention: the log begins somewhere later."""
        partition = self.partition
        if partition is None or not partition.log.batches:
            return
        log = partition.log
        batch = self._rng.choice(log.batches)
        if batch.base >= log.stable:
            return
        offset = batch.base if self._rng.random() < 0.7 else batch.base + 1
        log.delete_before(offset)
        self.truth.deleted_before(log.start)
        self._cluster.note(f"source {self.key[0]}-{self.key[1]}: log start {log.start}")
        self._cluster.moved_on(partition)

    def compact_some(self) -> None:
        """Compaction of one batch that is committed or aborted."""
        partition = self.partition
        if partition is None or not partition.log.batches:
            return
        log, rng = partition.log, self._rng
        batch = rng.choice(log.batches)
        if batch.next > log.stable or (batch.transactional and batch.fate == ABORT):
            return
        if batch.control:
            self._empty_marker(log, batch)
            return
        if batch.count != batch.next - batch.base:
            return  # compacted before
        keep = [n for n in range(batch.count) if rng.random() < 0.6]
        for n in range(batch.count):
            record = None if n in keep else self.truth.at(batch.base + n)
            if record is not None:
                self.truth.compacted(record.number)
        log.replace(batch, self._rewritten(batch, keep))
        self._cluster.note(
            f"source {self.key[0]}-{self.key[1]}: {batch.base} to {batch.next - 1} compacted"
        )

    def _rewritten(self, batch: Batch, keep: list[int]) -> bytes:
        old = self._plan.old_format
        if not batch.old or old is None:
            return compacted(batch, keep)
        there = (self.truth.at(batch.base + n) for n in keep)
        numbers = {record.offset: record.number for record in there if record is not None}
        return b"".join(self._old(old, numbers)) if numbers else b""

    def _old(self, old: OldFormat, numbers: Mapping[int, int]) -> list[bytes]:
        return old_messages(self.key[1], numbers, size=self._size, magic=old.magic, codec=old.codec)

    def _empty_marker(self, log: Log, batch: Batch) -> None:
        """Compaction keeps the last batch of a producer, without its record."""
        later = any(b.producer == batch.producer for b in log.from_offset(batch.next))
        if later or batch.producer in self._open:
            return
        if batch.producer in self._idle:
            self._idle.remove(batch.producer)
        log.replace(batch, empty_control_batch(batch))
        self._cluster.note(
            f"source {self.key[0]}-{self.key[1]}: the marker at {batch.base} is empty now"
        )

    def cut_off(self, end: int) -> None:
        """An unclean election cut the log off; transactions may be open again."""
        self.truth.cut_off(end)
        partition = self.partition
        assert partition is not None
        self._open = {p: 0 for p in {**self._open, **partition.log.open} if p in partition.log.open}
        self._idle = [p for p in self._idle if p not in self._open]
        for batch in partition.log.batches:
            if batch.transactional and not batch.control and batch.fate is None:
                self.truth.reopened(range(batch.base, batch.next))

    def begun_anew(self) -> None:
        """The topic was deleted."""
        self.truth.begun_anew()
        self._open.clear()
        self._idle.clear()
