"""The partitions of the offsets topic that a copy engine writes in its transactions.

A ledger is a `PartitionCopy` without a source: its batches, of source offsets, go to their broker
as copied ones do, with the same retries. Runs on the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kafka.partitioner.default import murmur2

from connect.clients.cluster_access import ClusterAccess
from connect.plugin import OFFSET_NOTE, SourcePartition, TransferTransactions
from connect.protocol.messages import TopicPartition
from connect.protocol.records import Record, encode_batch
from connectors.mirror.copy import recovery
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition import CopyState, Outgoing, PartitionCopy
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["Ledgers"]

_POSITIVE = 0x7FFFFFFF


class Ledgers:
    """See the module. `members`: those of the open transaction, by number."""

    def __init__(
        self,
        control: TransferTransactions,
        source_partition: Callable[[TopicPartition], SourcePartition],
        link: ClusterAccess,
        budget: MemoryBudget,
    ) -> None:
        self.topic = control.offsets_topic
        self.members: set[int] = set()
        self._control = control
        self._source_partition = source_partition
        self._link = link
        self._budget = budget
        self._made: dict[int, PartitionCopy] = {}
        self._by_key: dict[bytes, int] = {}
        self._by_source: dict[TopicPartition, int] = {}

    @property
    def all(self) -> Collection[PartitionCopy]:
        """Those that were ever needed."""
        return self._made.values()

    @property
    def known(self) -> bool:
        """Whether the topic's partitions are known; if not, they are asked for."""
        if self._count:
            return True
        self._link.request_refresh((self.topic,))
        return False

    @property
    def _count(self) -> int:
        return self._link.snapshot.partition_counts.get(self.topic, 0)

    def number(self, partition: PartitionCopy) -> int:
        """Which of them has this partition's offset. Only when they are `known`."""
        number = self._by_source.get(partition.source)
        if number is None:
            key = self._control.offset_key(self._source_partition(partition.source))
            number = self._by_source[partition.source] = self._number(key)
        return number

    def _number(self, key: bytes) -> int:
        """As Java's default partitioner chooses; kept, as it is slow in Python."""
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = (murmur2(key) & _POSITIVE) % self._count
        return number

    def has(self, partition: PartitionCopy) -> bool:
        """Whether the open transaction can take this partition's offset."""
        return self._by_source.get(partition.source) in self.members

    def add(self, number: int) -> PartitionCopy | None:
        """It is part of the transaction now. The ledger, where it is a new one."""
        self.members.add(number)
        if number in self._made:
            return None
        key = (self.topic, number)
        ledger = PartitionCopy(
            source=key,
            target=key,
            metrics=PartitionMetrics("", "", *key),
            state=CopyState.ACTIVE,
            ledger=True,
            position=0,
            acked_position=0,
        )
        ledger.producer_id, ledger.producer_epoch = self._control.producer
        self._made[number] = ledger
        return ledger

    def write(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        notes: Sequence[bytes],
        now_ms: int,
    ) -> Iterator[PartitionCopy]:
        """Put these (key, value), each with its note, into the queues; the ledgers that have
        something to send."""
        by_number: dict[int, list[Record]] = {}
        for (key, value), note in zip(records, notes, strict=True):
            mine = by_number.setdefault(self._number(key), [])
            headers = ((OFFSET_NOTE, note),)
            mine.append(Record(len(mine), now_ms, key, value, headers))
        for number, part in by_number.items():
            data = bytearray(encode_batch(part, base_offset=0))
            batch = Outgoing(
                data=memoryview(data),
                records=len(part),
                runs=((0, len(part)),),
                resume=0,
                max_timestamp=now_ms,
                shallow=False,
                buffer=FetchBuffer(self._budget, data),
            )
            ledger = self._made[number]
            ledger.enqueue(batch)
            yield ledger

    def blocked(self) -> PartitionCopy | None:
        """One that the target refuses for good."""
        return next((p for p in self.all if p.state is CopyState.BLOCKED), None)

    def written(self) -> bool:
        """Whether the target has all that was put into them."""
        return not any(ledger.queue or ledger.in_flight for ledger in self.all)

    def start_over(self) -> None:
        """What they had is aborted, and the producer is another one."""
        for ledger in self.all:
            ledger.go_back(0)
            recovery.restart_sequence(ledger)
            ledger.producer_id, ledger.producer_epoch = self._control.producer
