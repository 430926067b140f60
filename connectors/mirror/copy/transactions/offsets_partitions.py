"""The partitions of the offsets topic that a copy engine writes in its transactions.

An `OffsetsPartition` has no source: its batches hold source offsets, and are sent and retried like
copied batches. There are two differences. A batch cannot be fetched again, so it is never dropped
before the transaction ends. And a permanent error ends the task.

Runs on the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kafka.partitioner.default import murmur2

from connect.plugin import OFFSET_NOTE, StoredOffset
from connect.protocol.messages import TopicPartition
from connect.protocol.record_codec import Record, encode_batch
from connectors.mirror.copy.batches.outgoing import Outgoing
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import CopyLife, CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.settings import TransactionPlan
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["OffsetsPartition", "OffsetsPartitions"]

_POSITIVE = 0x7FFFFFFF


@dataclass(slots=True, eq=False)
class OffsetsPartition(TargetPartition):
    """One partition of the offsets topic. `acked_position` counts the offset records of the open
    transaction that the target acknowledged, `written` those that were queued."""

    written: int = 0

    refetchable: ClassVar[bool] = False

    def write(self, batch: Outgoing) -> None:
        """Queue a batch of offset records."""
        batch.resume = self.written + batch.records
        batch.runs = ((self.written, batch.records),)
        self.enqueue(batch, self.written)
        self.written = batch.resume

    @property
    def stored(self) -> bool:
        """Whether the target acknowledged every offset record of the open transaction."""
        return self.acked_position == self.written

    def start_over(self, producer: tuple[int, int]) -> None:
        """Reset after an abort: the records are void, and the producer is a new one."""
        self.go_back(0)
        self.written = 0
        self.restart_sequence()
        self.producer_id, self.producer_epoch = producer

    def next_transaction(self) -> None:
        """Reset after a commit: count from 0 again."""
        if self.queue or self.in_flight or not self.stored:
            raise self._broken(
                f"a transaction ended with {self.acked_position} of {self.written} source offsets "
                "acknowledged"
            )
        self.acked_position = self.written = 0

    # Nothing can be fetched again, so nothing is dropped. The batches have their own memory.

    def block(self) -> float:
        """Fail the task, because the target rejects the source offsets permanently."""
        self.refuse_head()
        return float("inf")

    def shed(self, budget: MemoryBudget) -> None:
        """Keep everything."""

    def evacuate(self, budget: MemoryBudget) -> None:
        """Keep everything."""


class OffsetsPartitions:
    """The offsets topic's partitions. `members`: their numbers in the open transaction."""

    def __init__(self, context: CopyContext, plan: TransactionPlan) -> None:
        self._context = context
        self.topic = plan.control.offsets_topic
        self.members: set[int] = set()
        self._control = plan.control
        self._source_partition = plan.source_partition
        self._storing: list[tuple[PartitionCopy, int]] = []
        """Partitions, and the positions that the open transaction stores."""
        self._made: dict[int, OffsetsPartition] = {}
        self._by_key: dict[bytes, int] = {}
        self._by_source: dict[TopicPartition, int] = {}

    @property
    def all(self) -> Collection[OffsetsPartition]:
        """All partitions that were ever needed."""
        return self._made.values()

    @property
    def known(self) -> bool:
        """Whether the topic's partitions are known. If not, requests them."""
        if self._count:
            return True
        self._context.target.request_refresh((self.topic,))
        return False

    @property
    def _count(self) -> int:
        return self._context.target.snapshot.partition_counts.get(self.topic, 0)

    def number(self, partition: PartitionCopy) -> int:
        """Return the offsets partition for a source partition. Call only when partitions are
        `known`."""
        number = self._by_source.get(partition.source)
        if number is None:
            key = self._control.offset_key(self._source_partition(partition.source))
            number = self._by_source[partition.source] = self._number(key)
        return number

    def _number(self, key: bytes) -> int:
        """Apply Java's default partitioner. Cached, because it is slow in Python."""
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = (murmur2(key) & _POSITIVE) % self._count
        return number

    def has(self, partition: PartitionCopy) -> bool:
        """Whether the partition for this source offset is in the open transaction."""
        return self._by_source.get(partition.source) in self.members

    def add(self, number: int) -> OffsetsPartition | None:
        """Add the partition to the transaction. Returns it if it is new."""
        self.members.add(number)
        if number in self._made:
            return None
        key = (self.topic, number)
        made = OffsetsPartition(
            source=key,
            target=key,
            metrics=PartitionMetrics("", "", *key),
            life=CopyLife(CopyState.ACTIVE),
            acked_position=0,
        )
        made.producer_id, made.producer_epoch = self._control.producer
        self._made[number] = made
        return made

    def store(self, partitions: Iterable[PartitionCopy]) -> None:
        """Write the acknowledged positions of these partitions as their source offsets. Raises
        ConnectError."""
        self._storing = [(partition, partition.acked_position) for partition in partitions]
        for partition, position in self._storing:
            partition.storing(position)
        offsets: list[StoredOffset] = [
            (self._source_partition(partition.source), {"offset": position - 1})
            for partition, position in self._storing
        ]
        records = self._control.offset_records(offsets) if offsets else []
        self._write(records, [p.facts(position).newest.encode() for p, position in self._storing])

    def _write(self, records: Sequence[tuple[bytes, bytes | None]], notes: Sequence[bytes]) -> None:
        """Queue these (key, value) records, each with its note."""
        now_ms = self._context.loop.now_ms()
        by_number: dict[int, list[Record]] = {}
        for (key, value), note in zip(records, notes, strict=True):
            mine = by_number.setdefault(self._number(key), [])
            headers = ((OFFSET_NOTE, note),)
            mine.append(Record(len(mine), now_ms, key, value, headers))
        for number, part in by_number.items():
            data = bytearray(encode_batch(part))
            batch = Outgoing(
                data=memoryview(data),
                records=len(part),
                runs=(),
                resume=0,
                max_timestamp=now_ms,
                shallow=False,
                buffer=FetchBuffer(self._context.budget, data),
            )
            self._made[number].write(batch)
            self._context.mark(self._made[number])

    def blocked(self) -> OffsetsPartition | None:
        """Return a partition that the target rejects permanently."""
        return next((p for p in self.all if p.state is CopyState.BLOCKED), None)

    @property
    def stored(self) -> bool:
        """Whether the target acknowledged every offset record of the open transaction."""
        return all(partition.stored for partition in self.all)

    def committed(self) -> list[PartitionCopy]:
        """Handle the commit of the open transaction. Returns the partitions whose source offsets
        are stored with it."""
        stored = [source for source, _ in self._storing]
        for source, position in self._storing:
            behind = source.behind_stored
            source.stored(position)
            if behind:
                self._context.mark(source)
        self._storing = []
        self.members.clear()
        for partition in self.all:
            partition.next_transaction()
        return stored

    def start_over(self) -> None:
        """Reset after an abort, or with a new producer."""
        for source, _ in self._storing:
            source.not_stored()
        self._storing = []
        self.members.clear()
        for partition in self.all:
            partition.start_over(self._control.producer)
