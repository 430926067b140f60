"""Writes to the source's partitions of a simulated task: records, and transactions among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from connect.protocol.messages import TopicPartition
from connect.protocol.record_codec import Record
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.log import ABORT, COMMIT
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.mirror.truth import SourceTruth
from tests.support.records.batches import encode_batch

__all__ = ["SourceWriters"]

_MOST_OPEN = 2
_ENDS = 0.4


class SourceWriters:
    """Of all partitions. `transactions`: the share of batches that are written in one."""

    def __init__(
        self,
        source: Cluster,
        truth: Mapping[TopicPartition, SourceTruth],
        note: Callable[[str], None],
        transactions: float,
    ) -> None:
        self._source = source
        self._truth = truth
        self._note = note
        self._chance: Random = source.rng
        self._transactions = transactions
        self._open: dict[TopicPartition, list[int]] = {key: [] for key in truth}
        self._idle: list[int] = []

    def write(self, key: TopicPartition, records: int, *, plain: bool = False) -> None:
        """A batch; before it a transaction may end. `plain`: it is in none."""
        if self._open[key] and self._chance.random() < _ENDS:
            self.end_one(key, commit=self._chance.random() < 0.6)
        producer = -1
        if not plain and self._transactions and self._chance.random() < self._transactions:
            producer = self._producer(key)
        partition, truth = self._partition(key), self._truth[key]
        first, now_ms = partition.log.end, self._source.time.now_ms()
        data = encode_batch(
            [
                Record(first + n, now_ms, None, str(truth.number(first + n)).encode())
                for n in range(records)
            ],
            base_offset=first,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            transactional=producer >= 0,
        )
        truth.appended(self._source.write(key, data))

    def _producer(self, key: TopicPartition) -> int:
        """One that writes in a transaction: one that is open, or another."""
        mine = self._open[key]
        if len(mine) >= _MOST_OPEN or (mine and self._chance.random() < 0.5):
            return self._chance.choice(mine)
        mine.append(self._idle.pop() if self._idle else self._source.new_producer_id())
        return mine[-1]

    def end_one(self, key: TopicPartition, *, commit: bool) -> None:
        """Commit or abort an open transaction."""
        producer = self._chance.choice(self._open[key])
        self._open[key].remove(producer)
        self._idle.append(producer)
        partition = self._partition(key)
        self._note(
            f"source {key[0]}-{key[1]}: producer {producer} {'commits' if commit else 'aborts'} at"
            f" {partition.log.end}"
        )
        now_ms = self._source.time.now_ms()
        partition.log.mark(producer, 0, COMMIT if commit else ABORT, partition.epoch, now_ms)
        partition.replicate()
        self._source.moved_on(partition)

    def begun_anew(self) -> None:
        """The topic was deleted, and all open transactions with it."""
        for key, open_here in self._open.items():
            self._idle += open_here
            open_here.clear()
            self._truth[key].begun_anew()

    def end_all(self) -> None:
        for key, open_here in self._open.items():
            while open_here:
                self.end_one(key, commit=self._chance.random() < 0.6)

    def _partition(self, key: TopicPartition) -> SimulatedPartition:
        partition = self._source.find(key)
        assert partition is not None
        return partition
