"""The state of each partition of a flow that Spark copies, and the engine's decisions. Pure.

The board holds the assigned partitions. Source ends, plans and results change it. It belongs to the
task's thread. A partition is `busy` while it is in a shard: it is in no other shard, and its
position is not known until the shard returns or has surely ended (`abandon`). Under exactly-once
the stored offsets show its position; until they were read (`settle`) the partition is `unsure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from connect.loop import backoff_s
from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Decision, Loss, LossKind, LossPolicies, decide
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.offsets.log_identity import LogIdentity, joined_by
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition
from connectors.mirror.spark.copy.shard_plan import Lagging, PlanLimits, plan_shards

__all__ = ["PartitionBoard"]

_LOG = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_CAP_S = 0.5, 30.0
_PROBE_S = 5.0
"""How often the end offset is requested again if the source seems to end before the copied
records."""


class PartitionBoard:
    """The partitions of one task. `now`: monotonic seconds. `now_ms`: since the epoch."""

    def __init__(
        self,
        limits: PlanLimits | None = None,
        policies: LossPolicies | None = None,
        on_loss: Callable[[SparkPartition, Loss], None] | None = None,
        on_begun: Callable[[SparkPartition], None] | None = None,
        *,
        begins_at_start: bool = True,
        stores: bool = True,
    ) -> None:
        """`on_begun`: a partition that was `start_unknown` has a start and waits for `let_copy`.
        `begins_at_start`: not where auto.offset.reset is latest. `stores`: positions are stored
        after shards, not in their transactions; then one that a loss moved back waits for that."""
        self._stores = stores
        self._policies = policies or LossPolicies()
        self._on_loss = on_loss or (lambda *_: None)
        self._on_begun = on_begun
        self._begins_at_start = begins_at_start
        self._limits = limits or PlanLimits()
        self._partitions: dict[TopicPartition, SparkPartition] = {}
        self._plans = 0
        self.news = True
        """Whether a plan may give a new result. Besides, partitions that wait for a time may be
        due."""

    def __iter__(self) -> Iterator[SparkPartition]:
        """Iterate over all partitions, including those that are leaving."""
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, key: TopicPartition) -> SparkPartition | None:
        return self._partitions.get(key)

    # Assignment.

    def assigned(self) -> set[TopicPartition]:
        return {key for key, partition in self._partitions.items() if not partition.leaving}

    def add(self, partition: SparkPartition) -> None:
        self._partitions[partition.source] = partition
        self.news = True

    def assign(self, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Set the assigned partitions. Returns those that have to be added."""
        keys = list(wanted)
        chosen = set(keys)
        for key, partition in self._partitions.items():
            partition.leaving = key not in chosen
        self.news = True
        return [key for key in keys if key not in self._partitions]

    def take_gone(self) -> list[SparkPartition]:
        """Remove and return partitions that are leaving and stored."""
        gone = [
            partition
            for partition in self._partitions.values()
            if partition.leaving and not partition.busy and not self._moved(partition)
        ]
        for partition in gone:
            del self._partitions[partition.source]
        return gone

    def _moved(self, partition: SparkPartition) -> bool:
        if self._stores and partition.behind_stored:
            return True
        return partition.position > 0 and partition.position != partition.stored

    def moved(self) -> list[SparkPartition]:
        """Return the partitions whose position differs from the stored one."""
        return [partition for partition in self._partitions.values() if self._moved(partition)]

    # The source's offsets.

    def unplaced(self) -> list[SparkPartition]:
        """Return the partitions that have no position yet, or have to start again."""
        return [
            partition
            for partition in self._partitions.values()
            if partition.standing is None
            and (partition.position == UNKNOWN or partition.begin_again)
            and not partition.busy
            and not partition.unsure
            and not partition.start_unknown
            and not partition.leaving
        ]

    def place(self, partition: SparkPartition, offset: int) -> None:
        """Continue at this source offset."""
        if partition.begin_again:
            self._created_again(partition, offset)
        if partition.position == UNKNOWN and self._on_begun is not None:
            partition.start_unsaved = True
        partition.position = offset
        if partition.start_unsaved and self._on_begun is not None:
            self._on_begun(partition)
        partition.begin_again = False
        partition.copy_error = None
        self.news = True

    # Partitions without a stored offset (`BeginningHost`).

    def begin(self, key: TopicPartition, position: int | None, topic_id: UUID | None) -> None:
        partition = self._partitions.get(key)
        if partition is None or not partition.start_unknown:
            return
        partition.start_unknown = False
        if position is not None:
            partition.topic_id = topic_id or partition.topic_id
            self.place(partition, position)

    def let_copy(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            partition = self._partitions.get(key)
            if partition is not None:
                partition.start_unsaved = False
        self.news = True

    def was_begun_before(self, key: TopicPartition, position: int, begun: int) -> None:
        partition = self._partitions.get(key)
        if partition is None or not self._begins_at_start:
            return
        kind = LossKind.RETENTION
        policy, at = self._policies.of(kind), partition.position
        resume = None if decide(kind, policy) is Decision.STAND else at
        self.lost(Loss(kind, policy, key, partition.target, position, begun, at, resume))

    def ends(self, found: Mapping[TopicPartition, int], now_ms: int) -> None:
        for key, end in found.items():
            partition = self._partitions.get(key)
            if partition is not None:
                self.news |= partition.end != end
                partition.end = end
                partition.show_lag(now_ms)

    def topic_ids(self, ids: Mapping[str, UUID]) -> None:
        """Set the topic IDs. A re-created topic has another ID, and all its records are new, even
        if its offsets reach beyond the copied ones. The ID of a topic that is known to be deleted
        comes from a broker with old metadata and is ignored."""
        for partition in self._partitions.values():
            found = ids.get(partition.source[0])
            former = partition.topic_id
            if found is None or found == former or found in partition.former_ids:
                continue
            another = former is not None and partition.position != UNKNOWN
            partition.former_ids = joined_by(partition.former_ids, former)
            partition.topic_id = found
            if not another:
                continue
            if self._policies.decide(LossKind.SOURCE_RECREATED) is Decision.STAND:
                self._created_again(partition, None)
            else:
                partition.begin_again = True

    # Losses.

    def _created_again(self, partition: SparkPartition, resume: int | None) -> None:
        kind = LossKind.SOURCE_RECREATED
        position = partition.position
        self.lost(
            Loss(
                kind,
                self._policies.of(kind),
                partition.source,
                partition.target,
                0,
                position,
                position,
                resume,
            )
        )

    def lost(self, loss: Loss) -> None:
        """Report a loss once, though every shard that starts there finds it."""
        partition = self._partitions.get(loss.source)
        if partition is None or partition.loss == loss:
            return
        partition.loss = loss
        if loss.on_target:
            partition.forget_target()
        partition.metrics.lost(loss.records)
        _LOG.error("%s", loss)
        self._on_loss(partition, loss)

    # Facts about the logs, stored with positions.

    def learning(self) -> bool:
        return any(p.learns and not p.unsure for p in self._partitions.values())

    def learn(self, facts: Mapping[TopicPartition, LogIdentity]) -> None:
        for key, partition in self._partitions.items():
            if not partition.learns or partition.unsure:
                continue
            partition.learns = False
            known = facts.get(key)
            if known is not None and known.hold_for(partition.position):
                partition.topic_id = known.source_topic_id or partition.topic_id
                partition.target_topic_id = known.target_topic_id
                partition.former_ids = known.former_source_ids or partition.former_ids
                partition.former_target_ids = known.former_target_ids
                partition.target_end = known.target_end
                partition.tail_start = known.reached(partition.position)
        self.news = True

    # Shards.

    def plan(
        self, slots: int, now: float, held_by: Callable[[str], str | None] = lambda topic: None
    ) -> list[list[SourceRange]]:
        """Return the next shards; empty if there is nothing to copy. Their partitions are busy from
        now on. `held_by`: returns the limit that forbids copying a topic now."""
        self.news = False
        shards = plan_shards(self._lagging(now, held_by), slots, self._limits)
        self._plans += 1
        for shard in shards:
            for each in shard:
                partition = self._partitions[each.source]
                partition.busy = True
                partition.since = self._plans
        return shards

    def _lagging(self, now: float, held_by: Callable[[str], str | None]) -> Iterator[Lagging]:
        for partition in self._partitions.values():
            position, end = partition.position, partition.end
            if position in (end, UNKNOWN) or end == UNKNOWN:
                continue
            if (
                partition.busy
                or partition.unsure
                or partition.learns
                or partition.comparing
                or partition.standing is not None
                or partition.leaving
                or partition.begin_again
                or partition.start_unsaved
                or partition.retry_at > now
                or (self._stores and partition.behind_stored)
            ):
                continue
            limit = held_by(partition.source[0])
            if limit is not None:
                partition.hold(limit, now)
                continue
            partition.let_go(now)
            if end < position:
                # The source may have deleted it. The broker reports that when the record is
                # fetched, and the copier then starts as auto.offset.reset says.
                partition.retry_at = now + _PROBE_S
                end = position + 1
            yield Lagging(
                partition.source,
                partition.target,
                position,
                end,
                partition.weight(end - position),
                partition.since,
                partition.failures > 0,
            )

    def size(self, wanted: SourceRange) -> float:
        """Return the estimated bytes of a range."""
        partition = self._partitions[wanted.source]
        return partition.weight(wanted.end - wanted.start)

    def reached(self, progress: RangeProgress, now: float, now_ms: int) -> None:
        """Apply the progress of one partition from a shard that returned."""
        partition = self._partitions[progress.range.source]
        partition.busy = False
        self.news = True
        start = progress.range.start
        partition.position = progress.position
        partition.log_start = max(partition.log_start, progress.log_start)
        partition.newest_timestamp = max(partition.newest_timestamp, progress.newest_timestamp)
        partition.end = max(partition.end, progress.high_watermark)
        self._measure(partition, progress, now_ms)
        partition.limited_by = progress.limited_by if partition.lag else None
        if progress.position != start or progress.records:
            partition.failures, partition.retry_at = 0, 0.0
            partition.copy_error = progress.error
        elif not progress.done:
            self._failed(partition, progress.error, now)

    @staticmethod
    def _measure(partition: SparkPartition, progress: RangeProgress, now_ms: int) -> None:
        metrics, newest = partition.metrics, progress.newest_timestamp
        if progress.records:
            metrics.fetched(progress.bytes, progress.records, newest, now_ms)
            metrics.acked(progress.records, newest, now_ms)
            metrics.shallow(progress.shallow_records, progress.shallow_batches)
            metrics.record_level(
                progress.records - progress.shallow_records, progress.level_batches
            )
        metrics.throttled(progress.throttled_ms / 1000)
        partition.show_lag(now_ms)
        partition.size.measure(progress.bytes, progress.position - progress.range.start)

    def release(self, keys: Iterable[TopicPartition]) -> None:
        """Release partitions whose plan was not used."""
        for key in keys:
            self._partitions[key].busy = False
        self.news = True

    def abandon(
        self, keys: Iterable[TopicPartition], reason: str, now: float, until: float
    ) -> None:
        """Handle partitions whose shard did not return. A task may still copy them, but not after
        `until`."""
        for key in keys:
            partition = self._partitions.get(key)
            if partition is not None and partition.busy:
                partition.busy = False
                self._failed(partition, reason, now)
                partition.retry_at = max(partition.retry_at, until)

    # Under exactly-once: partitions whose shard did not end well.

    def doubt(self, key: TopicPartition, reason: str | None, now: float) -> None:
        """Mark a partition as unsure. `reason` None: other partitions of its shard caused the
        error."""
        partition = self._partitions[key]
        partition.busy = False
        partition.unsure = True
        if reason is not None:
            self._failed(partition, reason, now)

    def unsure(self) -> list[TopicPartition]:
        return [key for key, partition in self._partitions.items() if partition.unsure]

    def settle(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set the positions after the stored offsets. No task copies these partitions any more."""
        for key, position in positions.items():
            partition = self._partitions[key]
            partition.unsure = False
            # Otherwise nothing was stored since the topic was re-created.
            if position is not None and position != partition.stored:
                partition.position = partition.stored = position
        self.news = True

    @staticmethod
    def _failed(partition: SparkPartition, reason: str | None, now: float) -> None:
        partition.failures += 1
        if reason is not None and reason != partition.copy_error:
            _LOG.warning("%s-%d: %s; retrying", *partition.source, reason)
        partition.copy_error = reason
        wait = backoff_s(_RETRY_FIRST_S, _RETRY_CAP_S, partition.failures - 1)
        partition.retry_at = now + wait

    def health(self, now_ms: int, engine_error: str | None) -> Sequence[PartitionHealth]:
        """Return the health of each partition. May be called from any thread."""
        return [
            partition.health(now_ms, engine_error)
            for partition in tuple(self._partitions.values())
            if not partition.leaving
        ]
