"""What a copy engine's transactions are given, and what they ask of the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from connect.plugin import SourcePartition, TransferTransactions
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = ["Settled", "TransactionHooks", "TransactionPlan"]


class Settled(NamedTuple):
    """An acknowledged batch; under exactly-once, one whose transaction is committed."""

    partition: PartitionCopy
    runs: Sequence[OffsetRun]
    base_offset: int
    records: int
    max_timestamp: int
    shallow: bool


class TransactionPlan(NamedTuple):
    """How the owner of the engine writes. `on_committed()`: a transaction is committed, and all of
    it was told."""

    control: TransferTransactions
    source_partition: Callable[[TopicPartition], SourcePartition]
    on_committed: Callable[[], None]


class TransactionHooks(Protocol):
    """The engine, as far as transactions must know it. On its thread. No method sends."""

    @property
    def partitions(self) -> Collection[PartitionCopy]: ...
    @property
    def fetching(self) -> bool: ...
    def refresh_interest(self, partition: TargetPartition) -> None:
        """It may be sent, or its position is another."""

    def waits_for_silent(self, partition: TargetPartition) -> bool:
        """Whether the batches in flight went to a broker that has fallen silent."""

    def cut_off(self, partition: TargetPartition) -> None:
        """Close the connection that its answers do not come on."""

    def refuse(self, partition: PartitionCopy, code: int) -> None:
        """The transaction does not take this partition: it waits and tries again."""

    def settle(self, settled: Settled) -> None:
        """A batch is committed."""
