"""The world of one simulated task: two clusters, internal topics, and workers that take turns.

A run has a turbulent part, in which everything may befall everything, and a calm end, in which a
last worker starts, copies the rest, and is stopped. The oracle looks after every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, cast

from connect.clients.topic_log import TopicSpec
from connect.clients.transaction_coordinator import TransactionCoordinator
from connect.clock import Deadline
from connect.metrics.registry import MetricRegistry
from connect.protocol import records
from connect.protocol.record_codec import Record, encode_batch
from connect.runtime.connector_stores import TransactionalStore
from connect.runtime.exactly_once import ExactlyOncePlan
from connect.runtime.task import WorkerTask, WorkerTaskContext
from connect.runtime.transactional_transfer import ExactlyOnceTransferTask
from connect.runtime.transfer_task import WorkerTransferTask
from connect.runtime.transfer_transactions import TaskTransactions, TransactionalRecords
from connect.storage.connector_offset_store import ConnectorOffsetStore, TransactionalOffsets
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import KafkaOffsetStore, OffsetStore
from connect.storage.offset_writer import OffsetWriter
from tests.simulation.kafka.access import AccessFaults
from tests.simulation.kafka.broker import BrokerFaults
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import Coordinator, CoordinatorFaults
from tests.simulation.kafka.network import Network, NetworkOptions
from tests.simulation.kafka.virtual_time import VirtualTime
from tests.simulation.mirror.clients import SimulatedClients, WatchedTask
from tests.simulation.mirror.exactly_once import CoordinatorClient
from tests.simulation.mirror.internal_topics import InternalTopic, TopicFaults
from tests.simulation.mirror.offsets_topic import CommittedRecords, SimulatedOffsetLog
from tests.simulation.mirror.oracle import Oracle
from tests.simulation.mirror.session import Finding, Session
from tests.simulation.mirror.timeline import Life, Moved, Timeline, WorkerClock
from tests.simulation.mirror.truth import Copies, SourceTruth
from tests.simulation.mirror.worker import SimulatedWorker

__all__ = ["MirrorWorld"]

CONNECTOR = "mirror"
OFFSETS = "offsets"
TOPIC = "t"

_CALM_S = 60.0
_STORE_START_S = 90.0
_MOST_SKEW_MS = 120_000

Key = tuple[str, int]


class MirrorWorld:
    """One run. `run` raises `Finding`."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.time = VirtualTime()
        self.timeline = timeline = Timeline(self.time, chance)
        self.network = Network(self.time, chance)
        self.source = Cluster("source", self.network, chance, 2, timeline.note)
        self.target = Cluster("target", self.network, chance, 2, timeline.note)
        self.coordinator = Coordinator(self.target)
        self.access = {"source": AccessFaults(), "target": AccessFaults()}
        self.keys: list[Key] = [(TOPIC, n) for n in range(chance.randint(1, 3))]
        self.source.create(TOPIC, len(self.keys))
        self.target.create(f"a.{TOPIC}", len(self.keys))
        self.target.create(OFFSETS, chance.randint(1, 2))
        self.topic_faults = {name: TopicFaults() for name in ("syncs", "map", "offsets")}
        self.syncs = InternalTopic("syncs", self.topic_faults["syncs"])
        self.map = InternalTopic("map", self.topic_faults["map"])
        self.truth = {key: SourceTruth(read_committed=False) for key in self.keys}
        copies = {
            key: Copies(self.target.topics["a.t"].partitions[key[1]].log) for key in self.keys
        }
        self.oracle = Oracle(
            timeline, CONNECTOR, self.truth, copies, self.syncs, self.map, keeps_map=True
        )
        self.oracle.read_offsets = CommittedRecords(
            self.target.topics[OFFSETS].partitions,
            self.oracle.stored,
        ).read
        self.flush_s = chance.choice((0.2, 1.0, 4.0))
        self.lag_max = chance.choice((0, 3, 100))
        self.transaction_timeout_s = chance.choice((3.0, 10.0, 60.0))
        self.boundary_s = chance.choice((None, None, 0.5))
        self.exactly_once_share = chance.choice((0.0, 0.0, 0.5, 1.0))
        """Of the workers."""
        self.assigned = list(self.keys)
        self.workers: list[SimulatedWorker] = []
        self._sessions: list[Session] = []
        self._clients: dict[SimulatedWorker, SimulatedClients] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self.memory_lasts: int | None = None
        """So many batches are made anew before there is no memory for one; None: enough."""
        self.calm = False

    # What happens.

    def soon(self, action: Callable[[], None]) -> None:
        """Do this between two turns."""
        self._todo.append(action)
        for clients in self._clients.values():
            clients.wake()

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do this between two turns, `seconds` from now."""
        self.time.after(seconds, lambda: self.soon(action))

    @property
    def alive(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if worker.alive]

    @property
    def running(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if worker.alive and not worker.frozen]

    def write(self, key: Key, records: int) -> None:
        """Somebody produces to the source."""
        partition = self.source.find(key)
        assert partition is not None
        first = partition.log.end
        data = encode_batch(
            [
                Record(first + n, self.time.now_ms(), None, str(first + n).encode())
                for n in range(records)
            ],
            base_offset=first,
        )
        self.truth[key].appended(self.source.write(key, data))

    def delete_before(self, key: Key, offset: int) -> None:
        """The source's retention."""
        partition = self.source.find(key)
        assert partition is not None
        before = partition.log.start
        partition.log.delete_before(offset)
        if partition.log.start > before:
            self.timeline.note(f"source {key[0]}-{key[1]} begins at {partition.log.start}")
            self.source.moved_on(partition)

    def behave(self, cluster: Cluster) -> None:
        """Requests to this cluster do not fail any more."""
        faults: tuple[tuple[Any, Any], ...] = (
            (cluster.faults, BrokerFaults()),
            (cluster.connections, NetworkOptions()),
            (self.access[cluster.name], AccessFaults()),
        )
        for now, none in faults:
            for name in none.__slots__:
                setattr(now, name, getattr(none, name))

    # Workers.

    def config(self) -> dict[str, str]:
        """The task's."""
        assigned = ",".join(f"{topic}-{number}" for topic, number in self.assigned)
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "name": CONNECTOR,
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": "source:1",
            "target.cluster.bootstrap.servers": "target:1",
            "topics": TOPIC,
            "task.index": "0",
            "task.count": "1",
            "task.assigned.partitions": assigned,
            "offset.lag.max": str(self.lag_max),
        }

    def start_worker(self, *, exactly_once: bool = False) -> SimulatedWorker:
        chance = self.chance
        number = len(self._sessions)
        life = Life()
        skew = chance.choice((0, chance.randint(-_MOST_SKEW_MS, _MOST_SKEW_MS)))
        clock = WorkerClock(self.timeline, life, skew)
        session = Session(number, f"worker {number}", exactly_once)
        for earlier in self._sessions:
            earlier.superseded = True
        self._sessions.append(session)
        session.slow_map = bool(self.topic_faults["map"].disturbed)
        session.whole = self.calm or not exactly_once
        how = "exactly once" if exactly_once else "at least once"
        self.timeline.note(
            f"{session.name} starts, {how}, its clock {skew} ms off, {self.assigned}"
        )
        clients = SimulatedClients(
            self.timeline,
            self.network,
            {name: (getattr(self, name), self.access[name]) for name in ("source", "target")},
            self.oracle,
            session,
            life,
            clock,
            self.syncs,
            self.map,
            lambda: len(self.running) > 1,
        )
        logs: list[SimulatedOffsetLog] = []

        def open_log(topic: str, *args: Any, **_: object) -> SimulatedOffsetLog:
            faults = self.topic_faults["offsets"]
            logs.append(SimulatedOffsetLog(self.timeline, self.target, topic, faults, args[1]))
            return logs[-1]

        store = KafkaOffsetStore(
            TopicSpec(OFFSETS), {}, read_committed=True, clock=clock, open_log=open_log
        )
        open_parts: list[Callable[[], None]] = [clients.cut_off, logs[0].die, session.end]
        if exactly_once:
            task = self._exactly_once(clients, store, session, clock, open_parts)
        else:
            task = self._at_least_once(clients, store, session, clock)
        worker = SimulatedWorker(session, self.timeline, life, clock, task, open_parts)
        self.workers.append(worker)
        self._clients[worker] = clients
        if not exactly_once:
            # The worker's own store is open before any of its tasks starts.
            store.start(Deadline(_STORE_START_S, clock))
        worker.start()
        return worker

    def thaw(self, worker: SimulatedWorker) -> None:
        """A frozen worker wakes up."""
        self.timeline.note(f"{worker.name} wakes up")
        worker.frozen = worker.session.frozen = False
        for session in self._sessions:
            session.disturbed = True

    def freeze(self, worker: SimulatedWorker) -> None:
        """Nothing of a worker runs for a while, and the others see that."""
        self.timeline.note(f"{worker.name} freezes")
        worker.frozen = worker.session.frozen = True

    def disturb(self, name: str, seconds: float) -> TopicFaults:
        """Writing or reading an internal topic fails or takes long for a while."""
        self.timeline.note(f"topic {name} is disturbed for {seconds:.1f} s")
        faults = self.topic_faults[name]
        faults.disturbed += 1

        def end() -> None:
            faults.disturbed -= 1
            if not faults.disturbed:
                faults.calm()

        self.at(seconds, end)
        if name == "map":
            for session in self._sessions:
                session.slow_map = True
        return faults

    def rebatch(self, *args: Any, **options: Any) -> Any:
        """`records.rebatch`, for which there may not be enough memory."""
        if self.memory_lasts is not None:
            self.memory_lasts -= 1
            if self.memory_lasts < 0:
                self.memory_lasts = None
                raise MemoryError("simulated: no memory for a batch")
        return records.rebatch(*args, **options)

    def _context(
        self, session: Session, store: OffsetStore, clock: WorkerClock
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
        )

    def _at_least_once(
        self,
        clients: SimulatedClients,
        store: KafkaOffsetStore,
        session: Session,
        clock: WorkerClock,
    ) -> WorkerTask:
        return WorkerTransferTask(
            WatchedTask(clients),
            self._context(session, store, clock),
            self.config(),
            OffsetWriter(store, CONNECTOR),
            commit_interval_s=self.flush_s,
            commit_timeout_s=5.0,
            clock=clock,
            commit_moved=Moved(self.timeline),
        )

    def _exactly_once(
        self,
        clients: SimulatedClients,
        own: KafkaOffsetStore,
        session: Session,
        clock: WorkerClock,
        open_parts: list[Callable[[], None]],
    ) -> WorkerTask:
        written = TransactionalRecords()
        offsets = TransactionalOffsets(own, lambda key, value: written.send(OFFSETS, key, value))
        store = ConnectorOffsetStore(offsets, None, delete_timeout_s=5.0)
        coordinator = CoordinatorClient(
            self.timeline,
            self.coordinator,
            f"workers-{CONNECTOR}-0",
            OFFSETS,
            self.transaction_timeout_s,
            lambda identity: self.oracle.writes(identity, session),
        )
        open_parts.append(coordinator.die)
        transactions = TaskTransactions(
            CONNECTOR,
            ExactlyOncePlan(coordinator.transactional_id, lambda: None, lambda: None),
            cast("TransactionCoordinator", coordinator),
            TransactionalStore(store, offsets, OFFSETS, own.notes),
            written,
            timeout_s=self.transaction_timeout_s,
            boundary_s=self.boundary_s,
            clock=clock,
        )
        return ExactlyOnceTransferTask(
            WatchedTask(clients),
            self._context(session, store, clock),
            self.config(),
            transactions,
            store,
            clock,
        )

    # The run.

    def drive(self, seconds: float) -> None:
        """Let everything go on for a while."""
        until = self.time.monotonic() + seconds
        while self.time.monotonic() < until:
            while self._todo:
                self._todo.popleft()()
            running = self.running
            if not running:
                if self.time.next_at() > until:
                    self.time.run_until(until)
                else:
                    self.time.run_next()
            for worker in running:
                worker.turn()
                self.oracle.check()
            for worker in [w for w in self._clients if not w.alive]:
                del self._clients[worker]

    def settle(self) -> None:
        """End everything that is wrong."""
        self.calm = True
        self.memory_lasts = None
        self.timeline.note("all is calm from now on")
        for faults in self.topic_faults.values():
            faults.calm()
        self.coordinator.faults = CoordinatorFaults()
        for cluster in (self.source, self.target):
            self.behave(cluster)
            cluster.heal()
        for worker in self.alive:
            if worker.frozen or self.chance.random() < 0.5:
                worker.kill()
            else:
                worker.stop()
        # Batches of dead workers get there, or do not.
        self.drive(5.0)

    def end(self) -> None:
        """A last worker copies the rest."""
        self.assigned = list(self.keys)
        worker = self.start_worker(exactly_once=self.chance.random() < self.exactly_once_share)
        caught_up = False
        deadline = self.time.monotonic() + _CALM_S
        while not caught_up and self.time.monotonic() < deadline:
            self.drive(1.0)
            caught_up = worker.alive and all(
                self.oracle.stored_position(key) == self.truth[key].end
                for key in self.keys
                if self.truth[key].end
            )
        if not worker.alive:
            raise Finding(f"{worker.name} failed though all is calm: {worker.failure!r}")
        self.drive(3.0)
        health = worker.task.health()
        trouble = worker.task.trouble()
        if not caught_up:
            stored = {key: self.oracle.stored_position(key) for key in self.keys}
            ends = {key: truth.end for key, truth in self.truth.items()}
            raise Finding(
                f"not caught up {_CALM_S:.0f} s after all was calm: stored {stored}, the source"
                f" ends at {ends}; health {health}, trouble {trouble}"
            )
        for each in health:
            if each.error is not None or each.lag_records:
                raise Finding(f"caught up, but {each.name} says {each}")
        if trouble is not None:
            raise Finding(f"caught up, but the task says: {trouble}")
        worker.stop()
        if not worker.finished:
            raise Finding("the last worker could not store its final offsets")
        self.drive(1.0)
        starts = {key: self.source.topics[TOPIC].partitions[key[1]].log.start for key in self.keys}
        self.oracle.check_end(starts)
        self.oracle.check_syncs(worker.session)
