"""The state of each partition of a flow that Spark copies, and the engine's decisions. Pure.

The board holds the assigned partitions. Source ends, shards and results change it. It belongs to
the task's thread. A partition is `busy` while it is in a shard: it is in no other shard, and its
position is not known until the shard returns or has surely ended (`abandon`). Under exactly-once
the stored offsets show its position; until they were read (`settle`) the partition is `unsure`.
Partitions with something to copy are kept apart (`shard_plan.WaitingPartitions`), so that a
decision does not look at all partitions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from connect.loop import backoff_s
from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind, LossPolicies
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.range_copier import RangeProgress
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.log_facts import LogFacts, UnknownTails
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition
from connectors.mirror.spark.copy.partition_losses import PartitionLosses
from connectors.mirror.spark.copy.shard_plan import Shard, WaitingPartitions

__all__ = ["PartitionBoard"]

_LOG = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_CAP_S = 0.5, 30.0
_PROBE_S = 5.0
"""How often the end offset is requested again if the source seems to end before the copied
records."""

_URGENT_S = 3600.0
"""Partitions that may lose records within this time come before others."""


class PartitionBoard:
    """The partitions of one task. `now`: monotonic seconds. `now_ms`: since the epoch."""

    def __init__(
        self,
        policies: LossPolicies | None = None,
        on_loss: Callable[[SparkPartition, Loss], None] | None = None,
        on_begun: Callable[[SparkPartition], None] | None = None,
        *,
        begins_at_start: bool = True,
        stores: bool = True,
    ) -> None:
        """`on_begun`: called when a partition that was `start_unknown` has a start position; it
        then waits for `let_copy`. `begins_at_start`: auto.offset.reset is earliest. `stores`:
        positions are stored after shards, not in their transactions. Then a partition that a loss
        moved back is copied once its position is stored."""
        self._stores = stores
        self._on_begun = on_begun
        self._begins_at_start = begins_at_start
        self._partitions: dict[TopicPartition, SparkPartition] = {}
        self._waiting = WaitingPartitions()
        self._unsure: set[TopicPartition] = set()
        self.tails = UnknownTails(stores=stores)
        self.facts = LogFacts(self._partitions, self.tails)
        self.losses = PartitionLosses(policies or LossPolicies(), self.tails, on_loss)
        self.news = True
        """Whether there may be another shard. Partitions that wait for a time may be due as
        well."""

    def __iter__(self) -> Iterator[SparkPartition]:
        """Iterate over all partitions, including those that are leaving."""
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def waiting(self) -> int:
        """Return the number of partitions that have something to copy and are in no shard."""
        return len(self._waiting)

    @property
    def flying(self) -> bool:
        """Whether any partition is in a shard."""
        return self._waiting.flying

    def get(self, key: TopicPartition) -> SparkPartition | None:
        return self._partitions.get(key)

    # Assignment.

    def assigned(self) -> set[TopicPartition]:
        return {key for key, partition in self._partitions.items() if not partition.leaving}

    def add(self, partition: SparkPartition) -> None:
        self._partitions[partition.source] = partition
        if partition.unsure:
            self._unsure.add(partition.source)
        if partition.learns:
            self.facts.add(partition.source)
        self.moved_to(partition)

    def moved_to(self, partition: SparkPartition) -> None:
        """Note that the position or the end of a partition has changed."""
        self.news = True
        position, end = partition.position, partition.end
        if partition.busy or position in (end, UNKNOWN) or end == UNKNOWN:
            self._waiting.remove(partition.source)
        else:
            self._waiting.put(partition)

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
            self._waiting.remove(partition.source)
            self._unsure.discard(partition.source)
            self.facts.forget(partition.source)
        return gone

    def _moved(self, partition: SparkPartition) -> bool:
        if self._stores and (partition.behind_stored or partition.facts_to_store):
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
        kind = partition.begin_again
        if kind is LossKind.TARGET_RECREATED:
            # If the source deleted records meanwhile, the next shard finds that there.
            offset = min(offset, partition.position)
        if kind is not None:
            self.losses.created_again(partition, kind, offset)
        fresh = partition.position == UNKNOWN
        if fresh and self._on_begun is not None:
            partition.start_unsaved = True
        partition.position = offset
        if fresh:
            self.tails.ask_end(partition)
        if partition.start_unsaved and self._on_begun is not None:
            self._on_begun(partition)
        partition.begin_again = None
        partition.copy_error = None
        self.moved_to(partition)

    # Partitions without a stored offset (`BeginningHost`).

    def begin(self, key: TopicPartition, position: int | None, topic_id: UUID | None) -> None:
        """Start a partition that has no stored offset. Every copy before a crash stored its start
        position first, so the target's log starts with it."""
        partition = self._partitions.get(key)
        if partition is None or not partition.start_unknown:
            return
        partition.start_unknown = False
        if position is not None:
            partition.topic_id = topic_id or partition.topic_id
            if self._stores:
                partition.target_end = 0
            self.tails.compare_from(partition, (position, 0))
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
        self.losses.begun_late(partition, position, begun)

    def ends(
        self, found: Mapping[TopicPartition, int], now_ms: int, asked_at: float = math.inf
    ) -> None:
        """Set the source's end offsets, which were asked for at `asked_at`. A shard copies records
        that are written meanwhile, too: an end from before its result says nothing."""
        for key, end in found.items():
            partition = self._partitions.get(key)
            if partition is not None and asked_at > partition.copied_at:
                if partition.end != end:
                    partition.end = end
                    self.moved_to(partition)
                partition.show_lag(now_ms)

    def topic_ids(self, ids: Mapping[str, UUID]) -> None:
        """Set the topic IDs. A re-created topic has another ID, and all its records are new, even
        if its offsets reach beyond the copied ones. The ID of a topic that is known to be deleted
        comes from a broker with old metadata and is ignored."""
        for partition in self._partitions.values():
            found = ids.get(partition.source[0])
            if found is not None and partition.is_another(found):
                self.losses.source_created_again(partition)

    def lost(self, loss: Loss) -> None:
        """Report a loss that a shard found, once, though every shard that starts there finds it."""
        partition = self._partitions.get(loss.source)
        if partition is not None:
            self.losses.found(partition, loss)

    # What partitions wait for (`log_facts.py`).

    def begin_without_facts(self) -> None:
        """Let partitions begin that wait for the facts about their logs."""
        self.facts.begin_without()
        self.news = True

    def learn(self, facts: Mapping[TopicPartition, LogIdentity]) -> None:
        """Set the facts that were stored with the positions at which partitions begin or began."""
        self.facts.learn(facts)
        self.news = True

    # Shards.

    def take_shard(
        self,
        shards: int,
        now: float,
        held_by: Callable[[str], str | None] = lambda topic: None,
    ) -> Shard | None:
        """Return the next shard; None if there is nothing to copy. Its partitions are busy from now
        on. `shards`: how many can be in flight at a time. `held_by`: returns the limit that forbids
        copying a topic now."""

        def ready(partition: SparkPartition) -> bool:
            return self._ready(partition, now, held_by)

        shard = self._waiting.take(shards, ready)
        for each in () if shard is None else shard.ranges:
            partition = self._partitions[each.source]
            partition.busy = True
            if partition.end < partition.position:
                # The source may have deleted it. The broker reports that when the record is
                # fetched, and the copier then starts as auto.offset.reset says.
                partition.retry_at = now + _PROBE_S
        return shard

    def _ready(
        self, partition: SparkPartition, now: float, held_by: Callable[[str], str | None]
    ) -> bool:
        if (
            partition.unsure
            or partition.learns
            or partition.comparing
            or partition.tail_start is not None
            or partition.standing is not None
            or partition.leaving
            or partition.begin_again
            or partition.start_unsaved
            or partition.retry_at > now
            or (self._stores and partition.behind_stored)
        ):
            return False
        limit = held_by(partition.source[0])
        if limit is not None:
            partition.hold(limit, now)
            return False
        partition.let_go(now)
        return True

    def forecast(self, now: float) -> None:
        """Update which partitions may lose records to retention soon."""
        found = {p.source: p.forecast_loss(now) for p in self._partitions.values()}
        urgent = sorted((s, key) for key, s in found.items() if s < _URGENT_S)
        self._waiting.urgent = {key: seconds for seconds, key in urgent}

    def _came_back(self, partition: SparkPartition) -> None:
        partition.busy = False
        self._waiting.came_back(partition.source)

    def reached(
        self, progress: RangeProgress, now: float, now_ms: int, *, patient: bool = True
    ) -> None:
        """Apply the progress of one partition from a shard that returned. `patient`: the shard had
        the time to move each partition that is well."""
        partition = self._partitions[progress.range.source]
        self._came_back(partition)
        start = progress.range.start
        partition.position = progress.position
        partition.log_start = max(partition.log_start, progress.log_start)
        partition.newest_timestamp = max(partition.newest_timestamp, progress.newest_timestamp)
        partition.end = max(partition.end, progress.high_watermark, progress.position)
        partition.copied_at = now
        partition.saw(KnownLogs.of_text(progress.known) if progress.known else None)
        self._measure(partition, progress, now_ms)
        partition.limited_by = progress.limited_by if partition.lag else None
        if progress.position != start or progress.records:
            partition.failures, partition.retry_at = 0, 0.0
            partition.copy_error = progress.error
        elif not progress.done and (patient or progress.error is not None):
            self._failed(partition, progress.error, now)
        self.moved_to(partition)

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
        metrics.dropped(progress.dropped)
        metrics.throttled(progress.throttled_ms / 1000)
        partition.show_lag(now_ms)
        partition.size.measure(progress.bytes, progress.position - progress.range.start)

    def abandon(
        self, keys: Iterable[TopicPartition], reason: str, now: float, until: float
    ) -> None:
        """Handle partitions whose shard did not return. A task may still copy them, but not after
        `until`."""
        for key in keys:
            partition = self._partitions.get(key)
            if partition is not None and partition.busy:
                self._came_back(partition)
                self._failed(partition, reason, now)
                partition.retry_at = max(partition.retry_at, until)
                self.tails.compare_from(partition, (partition.position, partition.target_end))
                self.moved_to(partition)

    # Under exactly-once: partitions whose shard did not end well.

    def doubt(self, key: TopicPartition, reason: str | None, now: float) -> None:
        """Mark a partition as unsure. `reason` None: other partitions of its shard caused the
        error."""
        partition = self._partitions[key]
        self._came_back(partition)
        partition.unsure = True
        self._unsure.add(key)
        if reason is not None:
            self._failed(partition, reason, now)
        self.moved_to(partition)

    def unsure(self) -> list[TopicPartition]:
        return list(self._unsure)

    def settle(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Set the positions after the stored offsets. No task copies these partitions any more."""
        for key, position in positions.items():
            partition = self._partitions.get(key)
            if partition is None:
                continue
            partition.unsure = False
            self._unsure.discard(key)
            if not partition.learns:
                self.facts.discard(key)
            # Otherwise nothing was stored since the topic was re-created.
            if position is not None and position != partition.stored:
                partition.position = partition.stored = position
                partition.moved_without_epochs()
            self.moved_to(partition)

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
