"""The common base of the source tasks of both engines: config, names, metrics, and stored
progress."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Generic, Protocol, TypeVar

from connect.clock import Clock
from connect.log_fields import add_log_fields
from connect.plugin import StoredOffset, TransferCounts, TransferTask
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.clients import source_consumer
from connectors.mirror.config.source import SourceTaskConfig
from connectors.mirror.config.task_changes import flow_part, only_adds_partitions
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.history.recorder import CopiedPartition, TaskHistory
from connectors.mirror.metrics import CopyTotals, PartitionMetrics, TaskPartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import Reached, position_after, source_partition
from connectors.mirror.offsets.start_position_tracker import StartPositionTracker
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.retention.watch import RetentionWatch

__all__ = ["BaseSourceTask", "reached", "running"]

T = TypeVar("T")


def running(owned: T | None) -> T:
    """A part of the task, which exists between `start` and `stop`."""
    assert owned is not None, "the task is not running"
    return owned


class _Partition(CopiedPartition, Protocol):
    """A partition of either engine, whose position is stored."""

    @property
    def behind_stored(self) -> bool: ...
    def facts(self, position: int) -> LogIdentity: ...


P = TypeVar("P", bound=_Partition)


def reached(partition: _Partition, position: int) -> Reached:
    """Return the progress of a partition whose records before `position` are on the target.

    The facts are those of this moment, so they hold only for the acknowledged position. A partition
    that moved back to before its stored offset keeps the facts beside that one until the lower
    offset is stored: they find the loss again.
    """
    holds = position == partition.acked_position and not partition.behind_stored
    facts = partition.facts(position) if holds else None
    return Reached(partition.source, position, partition.log_start_offset, facts)


class BaseSourceTask(TransferTask, Generic[P]):
    """A source task of one flow. `P`: the engine's partitions."""

    def __init__(self, clock: Clock, *, on_spark: bool = False) -> None:
        self._clock = clock
        self._sync_writer: OffsetSyncWriter | None = None
        self._beginnings: StartPositionTracker | None = None
        self._history: TaskHistory | None = None
        self._retention: RetentionWatch | None = None
        self._committing: list[tuple[P, int]] = []
        self._totals = CopyTotals(on_spark=on_spark)
        self._remove_totals: Callable[[], None] = lambda: None
        self._partition_metrics = TaskPartitionMetrics()

    def _configure(self, config: Mapping[str, str]) -> tuple[SourceTaskConfig, dict[str, str]]:
        """Parse the task's properties; also returns Java properties of its consumer."""
        task = SourceTaskConfig.from_properties(config)
        self._config = task.connector
        add_log_fields(flow=self._config.flow)
        self._flow = flow_part(config)
        self._policy = replication_policy(config)
        consumer = source_consumer(config, task.task_index)
        self._client_id = consumer["client.id"]
        producer_id = self.context.producer_properties().get("client.id", "")
        self._partition_metrics.register(
            self.context.metrics,
            f"{self.context.connector_name}-{self.context.task_index}",
            producer_id,
        )
        self._remove_totals = self._totals.register(
            self.context.metrics,
            self._client_id,
            producer_id,
            {
                "source": self._config.source_cluster_alias,
                "target": self._config.target_cluster_alias,
                "connector": self.context.connector_name,
                "task": str(self.context.task_index),
            },
        )
        return task, consumer

    def _target(self, key: TopicPartition) -> TopicPartition:
        """Return the target partition of this source partition."""
        alias = self._config.source_cluster_alias
        return self._policy.remote_topic(alias, key[0]), key[1]

    def _change(self, key: TopicPartition) -> ChangeRecord | None:
        """Return the transformation of this partition's records; None: they stay as they are."""
        transforms, policy = self.context.transforms, self._policy
        alias, topic = self._config.source_cluster_alias, key[0]
        if transforms is None or not policy.changed_by_chain(alias, topic):
            return None
        _, transform = transforms.of_topic(topic, policy.format_remote_topic(alias, topic))
        return None if transform is None else partial(transform.apply, key[1])

    def _metrics(self, key: TopicPartition) -> PartitionMetrics:
        """Create and show the metrics of this partition of the source."""
        metrics = PartitionMetrics(
            self._config.source_cluster_alias,
            self._config.target_cluster_alias,
            *self._target(key),
            source_topic=key[0],
            client_id=self._client_id,
            totals=self._totals,
            clock=self._clock,
        )
        self._partition_metrics.add(key, metrics)
        return metrics

    def _stored(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Read where these partitions continue after their stored offsets; None for a partition
        without one. May be called from any thread."""
        offsets = self.context.stored_offsets(self._source_partitions(keys))
        return {key: position_after(offset) for key, offset in zip(keys, offsets, strict=True)}

    def _expect(self, new: Sequence[TopicPartition], stored: Collection[TopicPartition]) -> None:
        """Track how partitions start: `new` ones have no stored offset, those of `stored` have
        one."""
        beginnings = running(self._beginnings)
        marks = self.context.offset_marks(self._source_partitions(new))
        beginnings.expect(dict(zip(new, marks, strict=True)))
        beginnings.stored(stored)

    def _source_partitions(self, keys: Sequence[TopicPartition]) -> list[dict[str, str | int]]:
        alias = self._config.source_cluster_alias
        return [source_partition(alias, key) for key in keys]

    def _prepare(self, moved: list[tuple[P, int]]) -> Future[list[StoredOffset]]:
        """Begin to store these positions. The future completes once the map pages that cover them
        are written."""
        self._committing = moved
        running(self._history).reached(moved)
        return running(self._sync_writer).prepare([reached(*each) for each in moved])

    @abstractmethod
    def _position_stored(self, partition: P, position: int) -> None:
        """Note that this position was stored as the partition's source offset."""

    @abstractmethod
    def _forget_departed(self) -> None:
        """Forget the partitions that left and whose positions are stored."""

    def committed(self) -> None:
        behind = [moved for moved in self._committing if moved[0].behind_stored]
        for partition, position in self._committing:
            self._position_stored(partition, position)
        # The facts beside their former offsets do not hold any more.
        self._write_reached(moved for moved in behind if not moved[0].behind_stored)
        running(self._beginnings).stored([partition.source for partition, _ in self._committing])
        self._committing = []
        self._forget_departed()
        running(self._sync_writer).committed()

    def _write_reached(self, stored: Iterable[tuple[P, int]]) -> None:
        """Write the pages and facts of partitions whose offsets are stored."""
        progress = [reached(*each) for each in stored]
        if progress:
            running(self._sync_writer).prepare(progress)

    def _forget(self, key: TopicPartition) -> None:
        running(self._sync_writer).forget(key)
        running(self._history).forget(key)
        self._partition_metrics.forget(key)

    def _remove_metrics(self) -> None:
        self._remove_totals()
        self._partition_metrics.close()

    def _close_writers(self) -> None:
        if self._retention is not None:
            self._retention.close()
            self._retention = None
        if self._history is not None:
            self._history.close()
            self._history = None
        if self._sync_writer is not None:
            self._sync_writer.close()
            self._sync_writer = None

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        return only_adds_partitions(before, after)

    @classmethod
    def writes_transactions(cls) -> bool:
        return True

    def trouble(self) -> str | None:
        return None if self._sync_writer is None else self._sync_writer.trouble

    def counts(self) -> TransferCounts:
        totals = self._totals
        return TransferCounts(totals.fetched, totals.acked, totals.waiting)

    def deliver(self) -> None:
        running(self._sync_writer).poll()
