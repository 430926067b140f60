"""The interfaces between a copy engine and its transactions."""

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
    """How the engine writes in transactions. `on_committed()`: called after a transaction was
    committed and all its batches were passed on."""

    control: TransferTransactions
    source_partition: Callable[[TopicPartition], SourcePartition]
    on_committed: Callable[[], None]


class TransactionHooks(Protocol):
    """Methods of the copy engine that its transaction code calls on the engine's thread. None of
    them sends a request."""

    @property
    def partitions(self) -> Collection[PartitionCopy]: ...
    @property
    def fetching(self) -> bool: ...
    def refresh_interest(self, partition: TargetPartition) -> None:
        """Update fetching and sending after a change of state or position."""

    def waits_for_silent(self, partition: TargetPartition) -> bool:
        """Whether the batches in flight went to a broker that has fallen silent."""

    def cut_off(self, partition: TargetPartition) -> None:
        """Close the connection on which the partition's responses are overdue."""

    def refuse(self, partition: PartitionCopy, code: int) -> None:
        """Handle a partition that the transaction rejects: it waits and retries."""

    def settle(self, settled: Settled) -> None:
        """Handle a committed batch."""
