"""Gives each partition the producer ID that its batches are sent with.

One producer ID of the target serves many partitions, each once. Under exactly-once the producer is
the transactions'. Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging

from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.transactions.manager import TransactionManager

__all__ = ["ProducerIds"]

_LOG = logging.getLogger(__name__)

_PRODUCER_RETRY_S = 1.0
_LAST_EPOCH = (1 << 15) - 1
"""The protocol's epochs are 16 bits wide."""


class ProducerIds:
    """The producer IDs of the partitions, and those of partitions that left."""

    def __init__(self, context: CopyContext, transactions: TransactionManager | None) -> None:
        self._context = context
        self._transactions = transactions
        self._producer: tuple[int, int] | None = None
        self._producer_asked = False
        self._producerless: dict[PartitionCopy, None] = {}
        self._served: set[TopicPartition] = set()
        self._retired: dict[TopicPartition, tuple[int, int, int]] = {}

    def equip(self, partition: PartitionCopy) -> None:
        """Give the partition a producer id, now or once one is available."""
        if partition.producer_id != UNKNOWN:
            return
        if self._transactions is not None:
            self._transactions.equip(partition)
            return
        before = self._retired.pop(partition.target, None)
        if before is not None:
            partition.producer_id, partition.producer_epoch, partition.next_sequence = before
            return
        self._producerless[partition] = None
        self._hand_out()

    def retire(self, partition: PartitionCopy) -> None:
        """Keep the producer ID of a partition that left, for its return: brokers remember every
        producer ID for a day, so a new one each time would waste their memory. The sequence
        continues, or, if the target may have batches that were not answered, begins in the next
        epoch. Requests of the former epoch that are still on their way are refused then, and cannot
        land among the new ones."""
        if partition.producer_id == UNKNOWN or self._transactions:
            return
        producer_id, epoch = partition.producer_id, partition.producer_epoch
        states = (CopyState.ACTIVE, CopyState.BLOCKED, CopyState.BACKOFF)
        if partition.outcome_unknown or partition.state not in states:
            if epoch < _LAST_EPOCH:
                self._retired[partition.target] = (producer_id, epoch + 1, 0)
            return
        partition.drop_surely_absent()
        self._retired[partition.target] = (producer_id, epoch, partition.next_sequence)

    def _hand_out(self) -> None:
        """Assign a producer ID. It serves one target partition once: if the sequence restarted at
        0, the target would treat new batches as duplicates of its own."""
        if self._producer is None:
            self._ask_producer()
            return
        waiting, self._producerless = self._producerless, {}
        for partition in waiting:
            if partition.target in self._served:
                self._producerless[partition] = None
                continue
            self._served.add(partition.target)
            partition.producer_id, partition.producer_epoch = self._producer
            partition.target_error = None
            self._context.mark(partition)
        if self._producerless:
            self._producer = None
            self._ask_producer()

    def _ask_producer(self) -> None:
        if self._producer_asked:
            return
        self._producer_asked = True
        self._context.when_answered(
            self._context.target.init_producer_id(), self._got_producer, self._no_producer
        )

    def _no_producer(self, error: ConnectError) -> None:
        self._producer_asked = False
        _LOG.warning("Cannot get a producer id from the target: %s; retrying", error)
        for partition in self._producerless:
            partition.target_error = str(error)
        self._context.loop.after(_PRODUCER_RETRY_S, self._ask_producer)

    def _got_producer(self, producer: tuple[int, int]) -> None:
        self._producer_asked = False
        self._producer = producer
        self._served.clear()
        self._hand_out()
