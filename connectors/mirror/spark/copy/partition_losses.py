"""Decides what a loss in a partition's logs means for Spark's copier, and reports each loss once.
Pure. Belongs to the task's thread, like the board.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from connectors.mirror.config.losses import Decision, Loss, LossKind, LossPolicies
from connectors.mirror.spark.copy.log_facts import UnknownTails
from connectors.mirror.spark.copy.partition import SparkPartition

__all__ = ["PartitionLosses"]

_LOG = logging.getLogger(__name__)


class PartitionLosses:
    """Sets what each loss changes in its partition."""

    def __init__(
        self,
        policies: LossPolicies,
        tails: UnknownTails,
        on_loss: Callable[[SparkPartition, Loss], None] | None,
    ) -> None:
        self._policies = policies
        self._tails = tails
        self._on_loss = on_loss or (lambda *_: None)

    def begun_late(self, partition: SparkPartition, position: int, begun: int) -> None:
        """Handle an earlier start position that was found for a partition that started at
        `begun`."""
        kind, at = LossKind.RETENTION, partition.position
        resume = None if self._policies.decide(kind) is Decision.STAND else at
        self.found(partition, self._loss(partition, kind, position, begun, resume))

    def source_created_again(self, partition: SparkPartition) -> None:
        """Handle a source topic that was re-created."""
        kind = LossKind.SOURCE_RECREATED
        if self._policies.decide(kind) is Decision.STAND:
            self.created_again(partition, kind, None)
        else:
            partition.begin_again = kind

    def target_created_again(self, partition: SparkPartition, topic_id: UUID) -> None:
        """Handle a target topic that was re-created with this ID. The partition is in no shard, and
        stands still for no other reason."""
        kind = LossKind.TARGET_RECREATED
        partition.next_target_id = topic_id
        decision = self._policies.decide(kind)
        if decision is Decision.AGAIN:
            partition.begin_again = kind
        else:
            resume = None if decision is Decision.STAND else partition.position
            self.created_again(partition, kind, resume)

    def created_again(self, partition: SparkPartition, kind: LossKind, resume: int | None) -> None:
        """Report the loss of a re-created topic. `resume`: where copying continues; None: not."""
        source = kind is LossKind.SOURCE_RECREATED
        end = partition.position if source else max(0, partition.target_end)
        self._tell(partition, self._loss(partition, kind, 0, end, resume))

    def found(self, partition: SparkPartition, loss: Loss) -> None:
        """Report a loss, unless it was reported before."""
        if partition.begin_again is loss.kind:
            return  # It was noticed by the topic's ID, too, and is reported when it begins again.
        if loss.kind is LossKind.TARGET_RECREATED:
            # A shard that was not told the target's end does not know how far its log reached.
            loss = replace(loss, end=max(loss.end, partition.target_end))
        if partition.loss != loss:
            self._tell(partition, loss)

    def _loss(
        self, partition: SparkPartition, kind: LossKind, first: int, end: int, resume: int | None
    ) -> Loss:
        policy, at = self._policies.of(kind), partition.position
        return Loss(kind, policy, partition.source, partition.target, first, end, at, resume)

    def _tell(self, partition: SparkPartition, loss: Loss) -> None:
        partition.loss = loss
        if loss.resume is not None:
            partition.stored_facts.store()
        # It has another place or another log than the one to compare from.
        partition.tail_start = None
        if loss.on_target:
            partition.forget_target(loss)
            self._tails.ask_end(partition)
        elif loss.kind is LossKind.SOURCE_RECREATED:
            partition.forget_source()
            if loss.resume is not None:
                partition.follow_source()
        partition.metrics.lost(loss.records)
        _LOG.error("%s", loss)
        self._on_loss(partition, loss)
