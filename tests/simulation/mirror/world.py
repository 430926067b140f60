"""The world of one simulated task: two clusters, internal topics, and workers that take turns.

A run has a turbulent part, in which everything may befall everything, and a calm end, in which a
last worker starts, copies the rest, and is stopped. The oracle looks after every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from connect.clock import Deadline
from connect.protocol import records
from tests.simulation.kafka.access import AccessFaults
from tests.simulation.kafka.broker import BrokerFaults
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import Coordinator, CoordinatorFaults
from tests.simulation.kafka.log import Batch
from tests.simulation.kafka.network import Network, NetworkOptions
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.kafka.virtual_time import VirtualTime
from tests.simulation.mirror.clients import SimulatedClients
from tests.simulation.mirror.factory import CONNECTOR, OFFSETS, TaskFactory
from tests.simulation.mirror.internal_topics import InternalTopic, TopicFaults
from tests.simulation.mirror.offsets_topic import CommittedRecords
from tests.simulation.mirror.oracle import Oracle
from tests.simulation.mirror.quarantine import QuarantineRecords
from tests.simulation.mirror.session import Finding, Session
from tests.simulation.mirror.timeline import Life, Timeline, WorkerClock
from tests.simulation.mirror.truth import Copies, SourceTruth
from tests.simulation.mirror.worker import SimulatedWorker
from tests.simulation.mirror.writers import SourceWriters
from tests.support.copier import partition_invariants

__all__ = ["MirrorWorld"]

TOPIC = "t"

_CALM_S = 130.0
"""Under exactly-once, positions that moved without records are stored once a minute."""
_STORE_START_S = 90.0
_MOST_SKEW_MS = 120_000

Key = tuple[str, int]


class MirrorWorld:
    """One run. `run` raises `Finding`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(seed)
        self.time = VirtualTime()
        self.timeline = timeline = Timeline(self.time, chance)
        self.network = Network(self.time, chance)
        self.source = Cluster("source", self.network, chance, 2, timeline.note)
        self.target = Cluster("target", self.network, chance, 2, timeline.note)
        self.source.fetches_by_id = seed % 4 != 0
        self.coordinator = Coordinator(self.target)
        self.access = {"source": AccessFaults(), "target": AccessFaults()}
        self.keys: list[Key] = [(TOPIC, n) for n in range(chance.randint(1, 3))]
        self.source.create(TOPIC, len(self.keys))
        self.target.create(f"a.{TOPIC}", len(self.keys))
        self.target.create(OFFSETS, chance.randint(1, 2))
        self.topic_faults = {name: TopicFaults() for name in ("syncs", "map", "offsets")}
        self.syncs = InternalTopic("syncs", self.topic_faults["syncs"], self.time.now_ms)
        self.map = InternalTopic("map", self.topic_faults["map"], self.time.now_ms)
        self.keeps_map = chance.random() < 0.9
        self.emits_syncs = chance.random() < 0.9
        # Chosen apart, so that a seed's other choices stay what they were before there was this.
        apart = Random(seed * 31 + 7)
        transactions = apart.choice((0.0, 0.0, 0.4, 0.8))
        self.read_committed = apart.random() < (0.8 if transactions else 0.1)
        self.truth = {key: SourceTruth(read_committed=self.read_committed) for key in self.keys}
        self.transactions = transactions
        self.writers = SourceWriters(self.source, self.truth, timeline.note, transactions)
        copies = {
            key: Copies(self.target.topics["a.t"].partitions[key[1]].log) for key in self.keys
        }
        self.oracle = Oracle(
            timeline, CONNECTOR, self.truth, copies, self.syncs, self.map, keeps_map=self.keeps_map
        )
        self.oracle.life_of_topic = self.oracle.map.life_of_topic = self._life_of_topic
        self.oracle.read_offsets = CommittedRecords(
            self.target.topics[OFFSETS].partitions,
            self.oracle.stored,
        ).read
        self._tasks = TaskFactory(
            timeline,
            self.coordinator,
            self.oracle,
            self.topic_faults["offsets"],
            flush_s=chance.choice((0.2, 1.0, 4.0)),
            transaction_timeout_s=chance.choice((3.0, 10.0, 60.0)),
            boundary_s=chance.choice((None, None, 0.5)),
        )
        self.put_aside = QuarantineRecords()
        self.oracle.in_quarantine = self.put_aside.written
        self.has_quarantine = False
        self.deletes_nothing = False
        """The source keeps all records until its log is cut off: brokers forget the leader epochs
        of what they delete, and with them that other records were there."""
        self.limits: dict[str, str] = {}
        """Properties that limit the rate of the flow."""
        self.lag_max = chance.choice((0, 3, 100))
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

        self.target.on_appended = self._appended
        self.source.on_truncated = self._source_cut_off
        self.target.on_truncated = self._cut_off
        self.target.refuses_records = self._refuses

    def _life_of_topic(self, topic_id: UUID) -> int | None:
        ids = self.source.ids[TOPIC]
        return ids.index(topic_id) if topic_id in ids else None

    def _appended(self, partition: SimulatedPartition, batch: Batch) -> None:
        if partition.topic == f"a.{TOPIC}":
            self.oracle.appended((TOPIC, partition.number), batch)

    def _source_cut_off(self, partition: SimulatedPartition, end: int, lost: bool) -> None:
        self.oracle.source_cut_off(partition.key, end)
        self.truth[partition.key].cut_off(end)

    def _refuses(self, key: Key, data: bytes) -> bool:
        return key[0] == f"a.{TOPIC}" and self.put_aside.refuses(data)

    def _cut_off(self, partition: SimulatedPartition, end: int, lost: bool) -> None:
        if partition.topic == f"a.{TOPIC}":
            self.oracle.cut_off((TOPIC, partition.number), end)

    def commit_every(self, seconds: float) -> None:
        """`offset.flush.interval.ms` of the workers that start from now on."""
        self._tasks.flush_s = seconds

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
        """Somebody produces to the source, if its topic exists."""
        if TOPIC in self.source.topics:
            self.writers.write(key, records)

    def delete_before(self, key: Key, offset: int) -> None:
        """The source's retention."""
        partition = self.source.find(key)
        if partition is None or self.deletes_nothing:
            return
        before = partition.log.start
        partition.log.delete_before(min(offset, partition.log.stable))
        if partition.log.start > before:
            self.timeline.note(f"source {key[0]}-{key[1]} begins at {partition.log.start}")
            self.source.moved_on(partition)

    def delete_source(self) -> None:
        """The source's topic is deleted, and everything in it."""
        self.oracle.topic_deleted()
        self.writers.begun_anew()
        self.source.delete(TOPIC)

    def create_source(self) -> None:
        """It is created again, if it is not there."""
        if TOPIC not in self.source.topics:
            self.timeline.note(f"source: topic {TOPIC} is created again")
            self.source.create(TOPIC, len(self.keys))

    def delete_target(self) -> None:
        """The copy is deleted."""
        self.oracle.target_deleted()
        self.target.delete(f"a.{TOPIC}")

    def create_target(self) -> None:
        """It is created again, if it is not there."""
        if f"a.{TOPIC}" not in self.target.topics:
            self.timeline.note(f"target: topic a.{TOPIC} is created again")
            created = self.target.create(f"a.{TOPIC}", len(self.keys))
            for key in self.keys:
                self.oracle.target_created(key, created.partitions[key[1]].log)

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
            **({"mirror.quarantine.topic": "quarantine"} if self.has_quarantine else {}),
            **self.limits,
            "offset.lag.max": str(self.lag_max),
            "mirror.offset.map.enabled": str(self.keeps_map).lower(),
            "emit.offset-syncs.enabled": str(self.emits_syncs).lower(),
            "source.consumer.isolation.level": (
                "read_committed" if self.read_committed else "read_uncommitted"
            ),
        }

    def reconfigure(self) -> None:
        """The config is another one."""
        self.timeline.note(f"assigned: {self.assigned}")
        for worker in self.running:
            worker.reconfigure(self.config())

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
            self.put_aside,
            read_committed=self.read_committed,
        )
        made = self._tasks.make(clients, session, clock, self.config())
        worker = SimulatedWorker(
            session,
            self.timeline,
            life,
            clock,
            made.task,
            made.open_parts,
            clients.wait if number % 2 == 0 else None,
        )
        self.workers.append(worker)
        self._clients[worker] = clients
        if made.store is not None:
            made.store.start(Deadline(_STORE_START_S, clock))
        worker.start()
        return worker

    def thaw(self, worker: SimulatedWorker) -> None:
        """A frozen worker wakes up."""
        self.timeline.note(f"{worker.name} wakes up")
        worker.frozen = worker.session.frozen = False
        if worker.session.superseded:
            # It finds records of its successor on the target, and writes no page of them.
            worker.session.whole = False
        for session in self._sessions:
            session.disturbed = True

    def stop(self, worker: SimulatedWorker) -> None:
        """Stop it as a rebalance does."""
        acked = dict(worker.session.acked)
        worker.stop()
        if worker.finished and not worker.session.exactly_once:
            self.oracle.check_final(worker.session, acked)

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

    # The run.

    def drive(self, seconds: float) -> None:
        """Let everything go on for a while."""
        until = self.time.monotonic() + seconds
        while self.time.monotonic() < until:
            self._do_what_is_due()
            running = self.running
            if not running:
                if self.time.next_at() > until:
                    self.time.run_until(until)
                else:
                    self.time.run_next()
            for worker in running:
                worker.turn()
                self.oracle.check()
                if worker.alive:
                    for partition in self._clients[worker].partitions():
                        partition_invariants.check(partition)
            for worker in [w for w in self._clients if not w.alive]:
                del self._clients[worker]
        # What befell in the last turn belongs to this part of the run, too.
        self._do_what_is_due()

    def _do_what_is_due(self) -> None:
        while self._todo:
            self._todo.popleft()()

    def settle(self) -> None:
        """End everything that is wrong."""
        self.calm = True
        self.memory_lasts = None
        self.limits = {}
        self.put_aside.bad_every = self.put_aside.fails = 0
        self.timeline.note("all is calm from now on")
        self.create_source()
        self.create_target()
        for faults in self.topic_faults.values():
            faults.calm()
        self.coordinator.faults = CoordinatorFaults()
        for cluster in (self.source, self.target):
            self.behave(cluster)
            cluster.heal()
        self.writers.end_all()
        for key in self.keys:
            if self.truth[key].life:
                self.writers.write(key, 3, plain=True)
        for worker in self.alive:
            if worker.frozen or self.chance.random() < 0.5:
                worker.kill()
            else:
                self.stop(worker)
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
                (self.oracle.stored_position(key) or 0) >= truth.wanted_end
                for key, truth in self.truth.items()
            )
        if not worker.alive:
            raise Finding(f"{worker.name} failed though all is calm: {worker.failure!r}")
        self.drive(3.0)
        health = worker.task.health()
        trouble = worker.task.trouble()
        if not caught_up:
            stored = {key: self.oracle.stored_position(key) for key in self.keys}
            ends = {key: truth.wanted_end for key, truth in self.truth.items()}
            raise Finding(
                f"not caught up {_CALM_S:.0f} s after all was calm: stored {stored}, the source"
                f" ends at {ends}; health {health}, trouble {trouble}"
            )
        for each in health:
            if each.error is not None or each.lag_records:
                raise Finding(f"caught up, but {each.name} says {each}")
        if trouble is not None:
            raise Finding(f"caught up, but the task says: {trouble}")
        self.stop(worker)
        if not worker.finished:
            raise Finding("the last worker could not store its final offsets")
        self.drive(1.0)
        starts = {key: self.source.topics[TOPIC].partitions[key[1]].log.start for key in self.keys}
        self.oracle.check_end(starts)
        if self.emits_syncs:
            self.oracle.map.check_syncs(worker.session)
