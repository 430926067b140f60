"""Makes the real tasks of simulated workers, of both kinds, and the stores of their offsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.metrics.registry import MetricRegistry
from connect.runtime.offset_stores import TransactionalStore
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext
from connect.runtime.transfer.exactly_once_task import ExactlyOnceTransferTask
from connect.runtime.transfer.task import WorkerTransferTask
from connect.runtime.transfer.transactions import TaskTransactions, TransactionalRecords
from connect.storage.connector_offset_store import ConnectorOffsetStore, TransactionalOffsets
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore
from connect.storage.offset_writer import OffsetWriter
from tests.simulation.kafka.coordinator import Coordinator
from tests.simulation.mirror.clients import SimulatedClients, WatchedTask
from tests.simulation.mirror.exactly_once import WorkerCoordinator
from tests.simulation.mirror.internal_topics import TopicFaults
from tests.simulation.mirror.offsets_topic import SimulatedOffsetLog
from tests.simulation.mirror.oracle import Oracle
from tests.simulation.mirror.session import Session
from tests.simulation.mirror.timeline import Moved, Timeline, WorkerClock

__all__ = ["CONNECTOR", "OFFSETS", "MadeTask", "TaskFactory"]

CONNECTOR = "mirror"
OFFSETS = "offsets"
_FLUSH_TIMEOUT_S = 5.0


class MadeTask(NamedTuple):
    """`store` is to be open before the task starts; None: the task opens its own. `open_parts`:
    called when its process is gone."""

    task: WorkerTask
    store: KafkaOffsetStore | None
    open_parts: list[Callable[[], None]]


@dataclass
class TaskFactory:
    """What all tasks of a run have in common. Times in seconds."""

    timeline: Timeline
    coordinator: Coordinator
    oracle: Oracle
    offset_faults: TopicFaults
    flush_s: float
    transaction_timeout_s: float
    boundary_s: float | None

    def make(
        self,
        clients: SimulatedClients,
        session: Session,
        clock: WorkerClock,
        config: dict[str, str],
    ) -> MadeTask:
        logs: list[SimulatedOffsetLog] = []

        def open_log(topic: str, *args: Any, **_: object) -> SimulatedOffsetLog:
            logs.append(
                SimulatedOffsetLog(
                    self.timeline,
                    self.coordinator.cluster,
                    topic,
                    self.offset_faults,
                    args[1],
                    lambda batch: self.oracle.wrote_offsets(batch, session),
                )
            )
            return logs[-1]

        store = KafkaOffsetStore(
            TopicSpec(OFFSETS), {}, read_committed=True, clock=clock, open_log=open_log
        )
        open_parts: list[Callable[[], None]] = [clients.cut_off, logs[0].die, session.end]
        if session.exactly_once:
            task = self._exactly_once(clients, store, session, clock, config, open_parts)
            return MadeTask(task, None, open_parts)
        return MadeTask(
            self._at_least_once(clients, store, session, clock, config), store, open_parts
        )

    def _context(
        self,
        session: Session,
        store: OffsetStore,
        clock: WorkerClock,
        own_offsets: OffsetStore | None = None,
    ) -> WorkerTaskContext:
        return WorkerTaskContext(
            CONNECTOR,
            0,
            session.name,
            MetricRegistry(),
            OffsetReader(store, CONNECTOR),
            {"bootstrap.servers": "target:1"},
            lambda _: None,
            clock,
            own_offsets=own_offsets,
        )

    def _at_least_once(
        self,
        clients: SimulatedClients,
        store: KafkaOffsetStore,
        session: Session,
        clock: WorkerClock,
        config: dict[str, str],
    ) -> WorkerTask:
        return WorkerTransferTask(
            WatchedTask(clients),
            self._context(session, store, clock),
            config,
            OffsetWriter(store, CONNECTOR),
            commit_interval_s=self.flush_s,
            commit_timeout_s=_FLUSH_TIMEOUT_S,
            clock=clock,
            commit_moved=Moved(self.timeline),
        )

    def _exactly_once(
        self,
        clients: SimulatedClients,
        own: KafkaOffsetStore,
        session: Session,
        clock: WorkerClock,
        config: dict[str, str],
        open_parts: list[Callable[[], None]],
    ) -> WorkerTask:
        written = TransactionalRecords()
        offsets = TransactionalOffsets(own, lambda key, value: written.send(OFFSETS, key, value))
        store = ConnectorOffsetStore(offsets, None, delete_timeout_s=_FLUSH_TIMEOUT_S)
        coordinator = WorkerCoordinator(
            self.timeline,
            self.coordinator,
            f"workers-{CONNECTOR}-0",
            self.transaction_timeout_s,
            lambda identity: self.oracle.writes(identity, session),
        )
        open_parts.append(coordinator.die)
        transactions = TaskTransactions(
            CONNECTOR,
            ExactlyOncePlan(coordinator.transactional_id, lambda: None, lambda: None),
            coordinator,
            TransactionalStore(store, offsets, OFFSETS, own.notes),
            written,
            timeout_s=self.transaction_timeout_s,
            boundary_s=self.boundary_s,
            clock=clock,
        )
        return ExactlyOnceTransferTask(
            WatchedTask(clients),
            self._context(session, store, clock, own_offsets=store),
            config,
            transactions,
            clock=clock,
        )
