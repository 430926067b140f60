"""How a copy engine writes in transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from connect.plugin import SourcePartition, TransferTransactions
from connect.protocol.messages import TopicPartition

__all__ = ["TransactionPlan"]


class TransactionPlan(NamedTuple):
    """The task's transactions, and how a source partition is named in its stored offset."""

    control: TransferTransactions
    source_partition: Callable[[TopicPartition], SourcePartition]
