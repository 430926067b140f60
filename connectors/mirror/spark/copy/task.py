"""SparkSourceTask: the source task of a flow whose copier runs on Spark's executors.

A transfer task like the worker engine's (`connectors/mirror/source/task.py`). Both write the same
offset syncs, offset map and source offsets, so either can continue after the other. All decisions
and writes happen here, on the task's thread: `board.py` decides what is copied next, and
`flights.py` when. Other threads only run the Spark jobs and return results (`copy_jobs.py`).

Under exactly-once executors write batches and source offsets in transactions, with lanes that are
claimed here (`executor_ids.py`). Only committed results are used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from connect.clients.config.properties import fetch_settings, wire_settings
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError
from connect.futures import done_future
from connect.plugin import PartitionHealth, StoredOffset
from connect.protocol.messages import TopicPartition
from connectors.mirror.compare.tail_lookup import ThreadedTailLookup
from connectors.mirror.config.clients import source_admin
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rate_limits import RATE_NAMES
from connectors.mirror.config.source import SourceTaskConfig
from connectors.mirror.config.task_changes import flow_part
from connectors.mirror.config.transforms import CONVERTERS_PREFIX
from connectors.mirror.copy.positions.tail_checks import FoundTail, spans_from
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.start_position_tracker import WITHIN_S, StartPositionTracker
from connectors.mirror.retention.watch import RetentionWatch
from connectors.mirror.source.base_task import BaseSourceTask, running
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.copy_jobs import CopyJobs
from connectors.mirror.spark.copy.end_offsets import Listing
from connectors.mirror.spark.copy.exactly_once import ExactlyOnceBookkeeping
from connectors.mirror.spark.copy.executor_ids import (
    BrokerLaneClaims,
    ExecutorTransactionalIds,
    Positions,
)
from connectors.mirror.spark.copy.executor_transactions import LaneSettings
from connectors.mirror.spark.copy.flights import Flight, Flights
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition
from connectors.mirror.spark.copy.shards import CopyFlow, ShardResult
from connectors.mirror.spark.copy.source_offsets import SourceOffsets
from connectors.mirror.spark.copy.tails import BoardTails
from connectors.mirror.spark.transform.changes import FlowChanges
from connectors.mirror.topic_routes import plugins_in_use

__all__ = ["SparkSourceTask"]

_LOG = logging.getLogger(__name__)

_TURN_S = 0.1
"""How often delivery reports of offset syncs and map pages are handled."""

_STOP_S = 3.0
_FORECAST_S = 10.0


_quiet_until: dict[str, float] = {}
"""Until when Spark may still copy for a stopped task (monotonic seconds), by connector."""


class SparkSourceTask(BaseSourceTask[SparkPartition]):
    """Copies the partitions of its assignment on Spark."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(clock, on_spark=True)
        self._board = PartitionBoard(on_loss=self._lost)
        self._jobs: CopyJobs | None = None
        self._flights: Flights | None = None
        self._offsets: SourceOffsets | None = None
        self._listing: Listing | None = None
        self._lookup: ThreadedTailLookup | None = None
        self._tails: BoardTails | None = None
        self._lanes: ExecutorTransactionalIds | None = None
        self._once: ExactlyOnceBookkeeping | None = None
        self._loop: SelectorLoop | None = None
        """Runs what other threads post. It watches no sockets."""
        self._learn_by = self._forecast_at = 0.0
        self._paused = False
        self._trouble: str | None = "Spark is starting"
        self._fatal: ConnectError | None = None

    @classmethod
    def transforms_prefix(cls) -> str | None:
        """As in `TransferTask`. Executors run the chain; the worker's own chain counts their
        errors."""
        return CONVERTERS_PREFIX

    # Lifecycle.

    def start(self, config: Mapping[str, str]) -> None:
        task, consumer = self._configure(config)
        loop = self._loop = SelectorLoop(self._clock)
        fetch = fetch_settings(consumer)
        self._changes = FlowChanges(self._config, self._policy)
        self._board = PartitionBoard(
            policies=self._config.losses,
            on_loss=self._lost,
            on_begun=self._begun,
            begins_at_start=fetch.auto_offset_reset == "earliest",
            stores=self.context.transfer is None,
        )
        self._history = TaskHistory(
            self._config, self.context.connector_name, self.context.task_index
        )
        self._history.started(len(task.task_assigned_partitions), task.task_count)
        self._sync_writer = OffsetSyncWriter(self._config, task.task_index)
        self._beginnings = StartPositionTracker(
            self._sync_writer, self.context.connector_name, self._board, self._clock
        )
        self._offsets = SourceOffsets(wire_settings(consumer), fetch.isolation_level, self._clock)
        producer = dict(self.context.producer_properties())
        self._lookup = ThreadedTailLookup(
            wire_settings(consumer),
            wire_settings(producer),
            read_committed=fetch.isolation_level == 1,
        )
        self._listing = Listing(
            self._board,
            self._offsets,
            self._lookup,
            fetch.auto_offset_reset,
            loop.post,
            self._clock,
        )
        self._tails = BoardTails(self._lookup, self._clock, loop.post, self._found)
        # Each shard gets its limits, so executors can keep their copiers when limits change.
        connector = {k: v for k, v in self._config.originals.items() if k not in RATE_NAMES}
        lanes, plugin_path = self._open_lanes(producer), plugins_in_use().plugin_path
        flow = CopyFlow(connector, consumer, producer, lanes, plugin_path)
        self._assign(task.task_assigned_partitions)
        name = f"{self.context.connector_name}-{self.context.task_index}"
        self._retention = RetentionWatch(
            self._config.flow, source_admin(self._config.originals), consumer
        )
        self._jobs = CopyJobs(name, config, flow, self, self._changes)
        most_s = task.connector.mirror_spark_batch_s
        unheard_s = self._changes.unheard_s
        self._quiet_s = most_s + unheard_s
        self._flights = Flights(name, self._board, self._jobs, most_s, unheard_s, self._clock)
        self._flights.shares.limit(self._config.limits, self._clock.monotonic())
        self._jobs.start()

    def _open_lanes(self, producer: Mapping[str, str]) -> LaneSettings | None:
        """Return the lanes to write exactly once; None if the worker does not enable it."""
        control = self.context.transfer
        if control is None:
            return None
        claims = BrokerLaneClaims(control, wire_settings(producer), self._stored, self._clock)
        self._lanes = ExecutorTransactionalIds(
            control.transactional_id, claims, self._settle, running(self._loop).post, self._clock
        )
        self._once = ExactlyOnceBookkeeping(
            self._board,
            running(self._sync_writer),
            running(self._history),
            running(self._beginnings).stored,
            self._clock,
        )
        return LaneSettings(
            self.context.connector_name,
            control.offsets_topic,
            control.timeout_s,
            control.boundary_s,
        )

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        added = self._board.assign(partitions)
        once = self._lanes is not None
        quiet_until = _quiet_until.get(self.context.connector_name, 0.0)
        # Under exactly-once an executor may still commit offsets, so claim the lanes first.
        stored: Positions = {} if once else self._stored(added)
        for key in added:
            position = stored.get(key)
            partition = SparkPartition(key, self._target(key), self._metrics(key))
            partition.position = partition.stored = UNKNOWN if position is None else position
            partition.unsure = once
            partition.transformed = self._changes.copies_differ(key[0])
            partition.sliced = self._changes.by_spark(key[0])
            partition.learns = once or position is not None
            partition.start_unknown = once or position is None
            if position is not None:
                running(self._history).begun(key, position)
            partition.retry_at = 0.0 if once else quiet_until
            self._board.add(partition)
        if not once:
            self._expect_stored(stored)
        self._learn_by = self._clock.monotonic() + WITHIN_S
        running(self._listing).watch()
        _LOG.info(
            "%s task %d on Spark: %d partitions, %d of them new",
            self.context.connector_name,
            self.context.task_index,
            len(partitions),
            len(added),
        )

    def _expect_stored(self, stored: Positions) -> None:
        """Set the stored offsets of new partitions."""
        new = [key for key, position in stored.items() if position is None]
        self._expect(new, [key for key, position in stored.items() if position is not None])

    def _begun(self, partition: SparkPartition) -> None:
        """Handle the start position of a partition that has no stored offset."""
        key, position = partition.source, partition.position
        running(self._history).begun(key, position)
        running(self._listing).compare()
        running(self._beginnings).begun(key, position, partition.topic_id)

    def step(self, timeout: float) -> None:
        listing = running(self._listing)
        running(self._loop).turn(min(timeout, _TURN_S, listing.next_s()))
        running(self._sync_writer).poll()
        self._store_left_out_facts()
        if self._lanes is not None:
            self._fatal = self._fatal or self._lanes.failure
            running(self._once).turn()
        if self._fatal is not None:
            raise self._fatal
        listing.turn()
        running(self._beginnings).turn()
        self._learn(listing)
        tails = running(self._tails)
        tails.look(self._board.tails.take(self._clock.monotonic()))
        self._board.news |= tails.turn()
        running(self._history).look(self._board, self._board)
        self._forecast()
        if self._lanes is not None:
            self._lanes.turn(self._board.unsure())
        if not self._paused:
            running(self._flights).deal(self._lanes)

    def _store_left_out_facts(self) -> None:
        """Store facts that could not be written with the offsets, as the worker's engine does."""
        late = running(self._sync_writer).take_without_facts()
        for partition in filter(None, map(self._board.get, late)):
            self._store_facts(partition)

    def _store_facts(self, partition: SparkPartition) -> None:
        """Have the facts about its logs stored, though its position may be the stored one."""
        if self._once is not None:
            self._once.store_facts(partition.source)
        else:
            partition.stored_facts.store()
            self.context.request_commit()

    def _forecast(self) -> None:
        """Update which partitions may lose records to retention soon: they are copied first."""
        now = self._clock.monotonic()
        if now >= self._forecast_at:
            self._forecast_at = now + _FORECAST_S
            running(self._retention).look(self._board)
            self._board.forecast(now)

    def _learn(self, listing: Listing) -> None:
        """Set the stored facts about the logs of partitions that have just started."""
        board = self._board
        if not (board.facts.wanted or board.facts.wanted_late):
            return
        facts = running(self._sync_writer).facts()
        if facts is not None:
            board.learn(facts)
        elif board.facts.wanted and self._clock.monotonic() >= self._learn_by:
            board.begin_without_facts()
        else:
            return
        listing.compare()

    def _found(self, partition: SparkPartition, found: FoundTail) -> None:
        """Record that dead executors had copied these records beyond the stored offset."""
        position = partition.position
        records = 0
        for first, landed, count in spans_from(found, position):
            running(self._sync_writer).copied(partition.source, [(first, count)], landed)
            partition.target_end = landed + count
            records += count
        if records:
            partition.position = max(position, found.position)
            partition.passed_epochs(found.epochs)
            partition.metrics.found_on_target(records)
            running(self._history).already_copied(partition, position, records)
            _LOG.info(
                "%s-%d: %d records up to offset %d, after the stored offset, were on the target "
                "already; they are not copied again",
                *partition.source,
                records,
                partition.position - 1,
            )
        self._board.moved_to(partition)

    def _lost(self, partition: SparkPartition, loss: Loss) -> None:
        anchor = partition.anchored(loss.first) if loss.on_target else None
        running(self._sync_writer).lost(partition.source, loss, anchor)
        running(self._history).lost(partition, loss)
        if loss.resume is not None:
            # The next start would report it again. If it moved back, it is copied once that
            # position is stored.
            self._store_facts(partition)

    def wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Apply a new assignment or new limits in place. Any other change restarts the task."""
        if flow_part(config) != self._flow:
            return False
        task = SourceTaskConfig.from_properties(config)
        if set(task.task_assigned_partitions) != self._board.assigned():
            # Other tasks may have started the partitions that are new here.
            running(self._sync_writer).look_again()
            self._assign(task.task_assigned_partitions)
        if task.connector.limits != self._config.limits:
            shares = running(self._flights).shares
            shares.limit(task.connector.limits, self._clock.monotonic())
            self._board.news = True
        self._config = task.connector
        return True

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.wake()

    def drain(self, deadline: Deadline) -> None:
        self._paused = True
        flights = running(self._flights)
        while flights and not deadline.expired():
            running(self._loop).turn(min(_TURN_S, deadline.remaining()))
        if flights:
            _LOG.warning(
                "%d partitions are still being copied; records since their last result will be "
                "copied again",
                flights.partitions,
            )
        if self._once is not None:
            self._once.write_pages()

    def stop(self) -> None:
        self._remove_metrics()
        if self._jobs is not None:
            if not self._jobs.stop(_STOP_S):
                _LOG.warning(
                    "%s: threads of its Spark jobs are still ending; nothing has to be done: "
                    "they end with the process",
                    self._jobs.name,
                )
            self._jobs = None
            if self._flights and self._lanes is None:
                until = self._clock.monotonic() + self._quiet_s
                _quiet_until[self.context.connector_name] = until
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = None
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None
        self._close_writers()
        if self._loop is not None:
            self._loop.close()

    def health(self) -> list[PartitionHealth]:
        trouble = self._trouble
        if trouble is None and self._lanes is not None:
            trouble = self._lanes.trouble
        return list(self._board.health(self._clock.now_ms(), trouble))

    # Methods that other threads call (`JobsHost`).

    def flight_ended(self, flight: Flight, outcome: ShardResult | ConnectError) -> None:
        running(self._loop).post(lambda: self._landed(flight, outcome))

    def engine_state(self, trouble: str | None) -> None:
        self._trouble = trouble

    def engine_failed(self, error: ConfigError) -> None:
        def fail() -> None:
            self._fatal = error

        running(self._loop).post(fail)

    # Shards.

    def _settle(self, positions: Positions) -> None:
        first: dict[TopicPartition, int | None] = {}
        for key, position in positions.items():
            partition = self._board.get(key)
            if partition is None or not partition.start_unknown:
                continue
            first[key] = position
            if position is None:
                partition.learns = False
            else:
                partition.start_unknown = False
                running(self._history).begun(key, position)
        self._board.settle(positions)
        self._expect_stored(first)

    def _take(self, result: ShardResult, *, patient: bool) -> None:
        """Handle a shard's result: write it first, then let its partitions continue."""
        sync_writer = running(self._sync_writer)
        for line in result.copied:
            self.context.topic_used(line.target[0])
            sync_writer.copied(line.source, [(line.source_start, line.records)], line.target_start)
            partition = self._board.get(line.source)
            if partition is not None:
                if line.target_start < partition.target_end:
                    running(self._listing).landed_early(partition)
                end = line.target_start + line.records
                partition.target_end = max(partition.target_end, end)
        for loss in result.losses:
            self._board.lost(loss)
        if result.errors and self.context.transforms is not None:
            self.context.transforms.add_errors(result.errors)
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        if self._once is None or result.error is None:
            for progress in result.progress:
                self._board.reached(progress, now, now_ms, patient=patient)
        if self._once is not None:
            self._once.take(result)
            for records, ms in result.transactions:
                running(self.context.transfer).note(records, ms)

    def _landed(self, flight: Flight, outcome: ShardResult | ConnectError) -> None:
        """Handle the end of a flight."""
        landed = running(self._flights).landed(flight, outcome, self._lanes)
        if not isinstance(outcome, ConnectError):
            self._take(outcome, patient=flight.patient)
        if self._once is not None:
            self._once.lost(landed.left, landed.reason)
        else:
            now = self._clock.monotonic()
            self._board.abandon(landed.left, landed.reason, now, landed.until)

    # Progress.

    def prepare_commit(self) -> Future[list[StoredOffset]]:
        """Return the positions, once the map pages that cover them are written."""
        moved = [(partition, partition.position) for partition in self._board.moved()]
        for partition, _ in moved:
            partition.committing()
        return self._prepare(moved)

    def _position_stored(self, partition: SparkPartition, position: int) -> None:
        self._board.news |= partition.behind_stored
        partition.committed(position)

    def _forget_departed(self) -> None:
        for partition in self._board.take_gone():
            self._forget(partition.source)

    # Progress under exactly-once.

    @classmethod
    def grows_exactly_once(cls) -> bool:
        return True

    def request_commit(self) -> Future[None]:
        """Return at once: all records that this task knows to be on the target have stored
        offsets."""
        return done_future(None)
