"""MirrorSourceTask: assigns partitions to the batch copier and stores their progress.

It is a transfer task (connect/plugin). The copy engine copies the bytes. Acknowledged ranges are
written to the offset map, the offset syncs and the history. Steps and commits run on the worker's
engine thread, so nothing in them may block. The rest runs on the task's thread, except `wake`,
`stopping`, `trouble` and `health`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from connect.clients.wire.cancellation import Cancellation
from connect.clock import Deadline
from connect.plugin import (
    PartitionHealth,
    StoredOffset,
    TaskContext,
)
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rates import NO_LIMITS
from connectors.mirror.config.source import SourceTaskConfig
from connectors.mirror.config.task_changes import flow_part
from connectors.mirror.config.transforms import CONVERTERS_PREFIX
from connectors.mirror.copy.context import CopyListener, EngineEnvironment
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.quarantine import QuarantinedRecords
from connectors.mirror.copy.settings import TransactionPlan, engine_settings
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from connectors.mirror.offsets.offset_sync_writer import PAGES_EVERY_S, OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.offsets.start_position_tracker import StartPositionTracker
from connectors.mirror.source.base_task import BaseSourceTask, running
from connectors.mirror.source.catch_up import CopyProgress
from connectors.mirror.source.log_facts import LogFacts
from connectors.mirror.source.task_clients import OwnedQuarantine, OwnedTailLookup, TaskClients

__all__ = ["MirrorSourceTask"]

_LOG = logging.getLogger(__name__)

_LEARN_TURN_S = 0.05
_LOOK_S = 1.0

_KAFKA = TaskClients()


class MirrorSourceTask(BaseSourceTask[PartitionCopy]):
    """Copies the partitions of its assignment."""

    def __init__(self, clients: TaskClients = _KAFKA) -> None:
        super().__init__(clients.clock)
        self._clients = clients
        self._engine: CopyEngine | None = None
        self._cancellation: Cancellation | None = None
        self._quarantine: OwnedQuarantine | None = None
        self._tails: OwnedTailLookup | None = None
        self._progress: CopyProgress | None = None
        self._facts = LogFacts(clients.clock)
        self._assigned: set[TopicPartition] = set()
        self._limits = (NO_LIMITS, 1.0)
        self._left: list[PartitionCopy] = []
        self._without_pages: dict[TopicPartition, PartitionCopy] = {}
        self._pages_at = 0.0

    @classmethod
    def transforms_prefix(cls) -> str | None:
        return CONVERTERS_PREFIX

    # Lifecycle.

    def initialize(self, context: TaskContext) -> None:
        super().initialize(context)
        self._cancellation = Cancellation()

    def start(self, config: Mapping[str, str]) -> None:
        task, consumer = self._configure(config)
        settings = engine_settings(self._config, consumer, self.context.producer_properties())
        control = self.context.transfer
        if control is not None:
            # If Spark copied this flow before, its executors may still be writing.
            self._clients.fence_lanes(
                settings.target,
                control.transactional_id,
                self.context.task_index,
                self._cancellation,
            )
        self._history = self._clients.history(
            self._config, self.context.connector_name, self.context.task_index
        )
        self._history.started(len(task.task_assigned_partitions), task.task_count)
        if self._config.mirror_quarantine_topic is not None:
            self._quarantine = self._clients.quarantine(
                self._config.mirror_quarantine_topic,
                self._config,
                self.context.producer_properties(),
            )
        self._sync_writer = OffsetSyncWriter(
            self._config,
            task.task_index,
            self._clock,
            self._clients.offset_topics(self._config, task.task_index),
        )
        if self.context.transfer is None:
            # Under exactly-once a crash leaves no records to compare, because transactions include
            # the offsets.
            self._tails = self._clients.tails(
                settings.source, settings.target, read_committed=settings.options.read_committed
            )
        self._engine = CopyEngine(
            settings,
            CopyListener(
                acked=self._acked,
                lost=self._lost,
                quarantined=self._quarantined,
                found=self._passed,
                committed=self._transaction_committed,
                begun=self._begun,
            ),
            EngineEnvironment(
                self._clock,
                self._clients.open_cluster,
                self._clients.loop(),
                self._clients.memory,
            ),
            transactions=self._transactions(),
            quarantine=self._quarantine,
            tails=self._tails,
        )
        self._totals.clients = self._engine.figures
        self._beginnings = StartPositionTracker(
            self._sync_writer, self.context.connector_name, self._engine, self._clock
        )
        self._retention = self._clients.retention(self._config, consumer)
        self._progress = self._clients.catch_up.begin(self._clock)
        self._assign(task.task_assigned_partitions)
        self._limits = (self._config.limits, 1 / task.task_count)
        self._engine.limit(*self._limits)

    def _transactions(self) -> TransactionPlan | None:
        """Return how the task writes exactly once; None if the worker does not enable it."""
        control = self.context.transfer
        if control is None:
            return None
        return TransactionPlan(
            control,
            partial(source_partition, self._config.source_cluster_alias),
        )

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        engine = self._running()
        self._assigned = wanted = set(partitions)
        for key in [each.source for each in engine.partitions if each.source not in wanted]:
            engine.remove(key)
        added = [key for key in partitions if not engine.keep(key)]
        found = self._stored(added)
        came_back = self._take_back(added)
        new, not_new = [], []
        for key, stored in found.items():
            back = came_back.get(key)
            position = stored if back is None else back.acked_position
            added_here = engine.add(
                key,
                self._target(key),
                position,
                self._metrics(key),
                learns=True,
                change=self._change(key),
            )
            if position is None:
                new.append(key)
                continue
            if stored is not None:
                not_new.append(key)
            if back is None:
                self._facts.add(key, position)
            else:
                added_here.succeed(back)
                # Its logs may have changed since the partition left.
                engine.learn(key, back.facts(back.acked_position))
            running(self._history).begun(key, position)
        if any(back.behind_stored or back.facts_to_store for back in came_back.values()):
            self.context.request_commit()
        self._expect(new, not_new)
        self._facts.begin()
        if self.context.transfer is not None:
            alias = self._config.source_cluster_alias
            self._facts.take_noted(engine, self.context.transfer, alias)
        engine.watch()
        _LOG.info(
            "%s task %d: %d partitions, %d of them new",
            self.context.connector_name,
            self.context.task_index,
            len(wanted),
            len(added),
        )

    def _take_back(self, added: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionCopy]:
        """Handle partitions that left and returned before their positions were stored. Their old
        copies must not be stored any more, because that could overwrite newer positions."""
        keys = set(added)
        self._left += self._running().take_departed()
        back = {p.source: p for p in self._left if p.source in keys and p.acked_position >= 0}
        self._left = [p for p in self._left if p.source not in keys]
        for key in keys:
            self._partition_metrics.forget(key)
        return back

    def step(self, timeout: float) -> None:
        engine = self._running()
        beginnings = running(self._beginnings)
        sync_writer = running(self._sync_writer)
        waits = self._facts.positions or beginnings.waiting
        engine.step(min(timeout, sync_writer.due_in_s(), _LEARN_TURN_S if waits else _LOOK_S))
        sync_writer.poll()
        beginnings.turn()
        self._store_left_out_facts(engine, sync_writer)
        if self._without_pages:
            self._write_pages_now_and_then()
        if self._facts.positions:
            self._facts.turn(engine, sync_writer.facts())
        running(self._history).look(engine.watched, engine.partitions)
        if self._retention is not None:
            self._retention.look(engine.partitions)
        if self._progress is not None:
            self._progress.look(engine.partitions)

    def _store_left_out_facts(self, engine: CopyEngine, sync_writer: OffsetSyncWriter) -> None:
        """Store facts that could not be written with the offsets. A partition that does not move
        would have none: the next start could not see that its logs are other ones."""
        late = sync_writer.take_without_facts()
        if not late or self.context.transfer is not None:
            return  # Exactly once, they are beside the offsets.
        for partition in engine.partitions:
            if partition.source in late:
                partition.stored_facts.store()
        self.context.request_commit()

    def descriptor(self) -> int | None:
        transforms = self.context.transforms
        if transforms is not None and transforms.may_wait:
            return None
        return self._running().descriptor()

    def due_in_s(self) -> float:
        waits = self._facts.positions or running(self._beginnings).waiting
        due = min(self._running().due_in_s(), running(self._sync_writer).due_in_s())
        return min(due, _LEARN_TURN_S if waits else _LOOK_S)

    def _begun(self, partition: PartitionCopy) -> None:
        """Record the start position of a partition that has no stored offset."""
        key, position = partition.source, partition.position
        running(self._history).begun(key, position)
        running(self._beginnings).begun(key, position, partition.source_topic_id)

    def wake(self) -> None:
        if self._engine is not None:
            self._engine.wake()

    def stopping(self) -> None:
        if self._cancellation is not None:
            self._cancellation.cancel()
        self.wake()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Apply a new assignment or new limits in place. Any other change restarts the task."""
        if flow_part(config) != self._flow:
            return False
        task = SourceTaskConfig.from_properties(config)
        if self.context.transfer is not None and self._assigned - set(
            task.task_assigned_partitions
        ):
            # A partition that left may have records in a transaction that is aborted later. If it
            # returned before, it would continue after them.
            return False
        if set(task.task_assigned_partitions) != self._assigned:
            # Other workers may have started the partitions that are new here.
            running(self._sync_writer).look_again()
            self._assign(task.task_assigned_partitions)
        limits = (task.connector.limits, 1 / task.task_count)
        if limits != self._limits:
            self._limits = limits
            self._running().limit(*limits)
        return True

    def pause(self) -> None:
        self._running().set_fetching(False)

    def resume(self) -> None:
        self._running().set_fetching(True)

    def drain(self, deadline: Deadline) -> None:
        if not self._running().drain(deadline):
            _LOG.warning(
                "not every batch in flight was acknowledged; these records will be copied again"
            )
        self._write_pages()

    def stop(self) -> None:
        self._remove_metrics()
        if self._progress is not None:
            self._progress.close()
            self._progress = None
        if self._quarantine is not None:
            self._quarantine.close()
            self._quarantine = None
        self._close_writers()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._tails is not None:
            self._tails.close()
            self._tails = None
        if self._cancellation is not None:
            self._cancellation.close()

    def health(self) -> list[PartitionHealth]:
        return [] if self._engine is None else self._engine.health()

    def unhealthy(self) -> tuple[list[PartitionHealth], int]:
        return ([], 0) if self._engine is None else self._engine.unhealthy()

    def _running(self) -> CopyEngine:
        return running(self._engine)

    # Progress.

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base_offset: int) -> None:
        """Record that the target has these records from `base_offset` on."""
        self.context.topic_used(partition.target[0])
        if self.context.transfer is not None:
            self._without_pages[partition.source] = partition
        running(self._sync_writer).copied(
            partition.source, runs, base_offset, partition.log_start_offset
        )

    def _lost(self, partition: PartitionCopy, loss: Loss) -> None:
        anchor = partition.anchored(loss.first) if loss.on_target else None
        running(self._sync_writer).lost(partition.source, loss, anchor)
        if loss.resume is not None and self.context.transfer is None:
            # The next start would report it again. If it moved back, it is fetched once the lower
            # position is stored.
            self.context.request_commit()
        running(self._history).lost(partition, loss)

    def _quarantined(self, partition: PartitionCopy, aside: QuarantinedRecords) -> None:
        """Record that records were written to the quarantine topic. The partition continues after
        them."""
        topic = self._config.mirror_quarantine_topic
        name = f"{partition.source[0]}-{partition.source[1]}"
        text = (
            f"{name}: offsets {aside.first} to {aside.last} were written to the quarantine topic "
            f"{topic}: {aside.reason}"
        )
        _LOG.error("%s", text)
        partition.metrics.quarantined(aside.last - aside.first + 1)
        running(self._history).quarantined(partition, aside.first, aside.last, text)

    def _passed(self, partition: PartitionCopy, first: int, records: int) -> None:
        """Record that records that a crash left on the target are not copied again."""
        running(self._history).already_copied(partition, first, records)

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        """Return the acknowledged positions, once the map pages that cover them are written."""
        engine = self._running()
        self._left += engine.take_departed()
        moved = [
            (partition, partition.acked_position)
            for partition in (*engine.partitions, *self._left)
            if partition.unstored
        ]
        for partition, _ in moved:
            # After a crash, the next start compares both logs from here on.
            partition.drop_anchor()
            partition.storing(partition.acked_position)
        return self._prepare(moved)

    def _position_stored(self, partition: PartitionCopy, position: int) -> None:
        self._running().stored(partition, position)

    # Progress under exactly-once covers committed batches only.

    def request_commit(self) -> Future[None]:
        return self._running().request_commit()

    def _transaction_committed(self, stored: Sequence[PartitionCopy]) -> None:
        # Of those with records the next pages tell.
        without = [each.source for each in stored if each.source not in self._without_pages]
        if without:
            running(self._beginnings).stored(without)
        running(self._sync_writer).committed()

    def _write_pages_now_and_then(self) -> None:
        now = self._clock.monotonic()
        if now >= self._pages_at + PAGES_EVERY_S:
            self._pages_at = now
            self._write_pages()

    def _write_pages(self) -> None:
        """Write the map pages. They may be written after the offsets; until then translated offsets
        are too low, but never wrong.
        """
        stored = {
            key: partition
            for key, partition in self._without_pages.items()
            if partition.stored_position != UNKNOWN and not partition.behind_stored
        }
        if stored:
            for key in stored:
                del self._without_pages[key]
            running(self._beginnings).stored(stored)
            moved = [(partition, partition.stored_position) for partition in stored.values()]
            self._write_reached(moved)
            running(self._history).reached(moved)

    def _forget_departed(self) -> None:
        still: list[PartitionCopy] = []
        assigned = {partition.source for partition in self._running().partitions}
        for partition in self._left:
            if partition.unstored:
                still.append(partition)
            elif partition.source not in assigned:
                self._forget(partition.source)
        self._left = still
