"""How a copy engine writes in transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from connect.plugin import SourcePartition, TransferTransactions
from connect.protocol.messages import TopicPartition

__all__ = ["TransactionPlan"]


class TransactionPlan(NamedTuple):
    """How the engine writes in transactions. `on_committed()`: called after a transaction was
    committed and all its batches were passed on."""

    control: TransferTransactions
    source_partition: Callable[[TopicPartition], SourcePartition]
    on_committed: Callable[[], None]
