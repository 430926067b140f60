"""What befalls one simulated task, and when: everything from the seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import CoordinatorFaults
from tests.simulation.kafka.partition import NO_LEADER
from tests.simulation.mirror.late_store import LateStore
from tests.simulation.mirror.worker import SimulatedWorker
from tests.simulation.mirror.world import MirrorWorld

__all__ = ["plan"]


_RECREATED = _REFUSED = _LIMITED = 1 / 8
_TARGET_RECREATED = 1 / 4
"""Of those in which all workers copy at least once."""
_CUT = 1 / 4
"""Of those in which nothing of the source is written in transactions."""


def plan(world: MirrorWorld) -> float:
    """Schedule the turbulent part; its length in seconds."""
    chance = world.chance
    length = chance.uniform(6, 20)
    _Plan(world, length).make()
    _More(world, length).make()
    return length


class _More:
    """What happens in a share of the seeds only. Each is chosen apart, so that a seed's other
    choices stay what they were before there was this."""

    def __init__(self, world: MirrorWorld, length: float) -> None:
        self._world = world
        self._length = length

    def make(self) -> None:
        seed = self._world.seed
        if not (
            self._recreate(Random(seed * 31 + 9))
            or self._cut(Random(seed * 31 + 12))
            or self._recreate_target(Random(seed * 31 + 13))
        ):
            LateStore(self._world, Random(seed * 31 + 8)).plan()
        self._refuse_records(Random(seed * 31 + 10))
        self._limit(Random(seed * 31 + 11))

    def _recreate(self, chance: Random) -> bool:
        """The source's topic is deleted and created again, once."""
        if chance.random() >= _RECREATED:
            return False
        world = self._world
        at, gone_for = self._length * chance.uniform(0.1, 0.95), chance.choice((0.01, 0.3, 2.0))
        world.at(at, world.delete_source)
        world.at(at + gone_for, world.create_source)
        return True

    def _cut(self, chance: Random) -> bool:
        """Unclean elections cut the source's logs off. Not where its producers write transactions:
        their markers could be lost, too."""
        world = self._world
        if chance.random() >= _CUT or world.transactions:
            return False
        world.deletes_nothing = True
        for _ in range(chance.randint(1, 2)):
            world.at(self._length * chance.uniform(0.1, 0.95), partial(self._cut_off, chance))
        return True

    def _recreate_target(self, chance: Random) -> bool:
        """The copy is deleted and created again, once."""
        world = self._world
        if chance.random() >= _TARGET_RECREATED or world.exactly_once_share:
            return False
        at, gone_for = self._length * chance.uniform(0.1, 0.95), chance.choice((0.01, 0.3, 2.0))
        world.at(at, world.delete_target)
        world.at(at + gone_for, world.create_target)
        return True

    def _cut_off(self, chance: Random) -> None:
        world = self._world
        key = chance.choice(world.keys)
        partition = world.source.find(key)
        if world.truth[key].life:
            return  # once: of two cuts in a moment a worker tells one after the other
        if world.calm or partition is None or partition.leader == NO_LEADER:
            return
        if partition.log.batches and world.source.nodes_up:
            recent = partition.log.batches[-8:]
            world.source.truncate(partition, chance.choice(recent).base)

    def _refuse_records(self, chance: Random) -> None:
        """The flow has a quarantine, and the target refuses records for a while."""
        if chance.random() >= _REFUSED:
            return
        world = self._world
        world.has_quarantine = True
        for _ in range(chance.randint(1, 3)):
            at, every = self._length * chance.random(), chance.choice((2, 3, 7, 20))
            world.at(at, partial(self._refuse_every, every))
            world.at(at + chance.choice((0.5, 3.0, 20.0)), partial(self._refuse_every, 0))

    def _refuse_every(self, every: int) -> None:
        if not self._world.calm:
            self._world.timeline.note(f"the target refuses every record of {every}; 0: none")
            self._world.put_aside.bad_every = every

    def _limit(self, chance: Random) -> None:
        """The flow's rate is limited, the limit is changed, and goes."""
        if chance.random() >= _LIMITED:
            return
        for _ in range(chance.randint(1, 4)):
            limits: dict[str, str] = {}
            if chance.random() < 0.7:
                limits["mirror.rate.records"] = str(chance.choice((5, 20, 100)))
            if chance.random() < 0.3:
                limits["mirror.rate.bytes"] = str(chance.choice((500, 5_000)))
            if chance.random() < 0.3:
                limits["mirror.rate.topics"] = chance.choice(("t=10records/s", "t=1kB/s"))
            self._world.at(self._length * chance.random(), partial(self._limit_to, limits))

    def _limit_to(self, limits: dict[str, str]) -> None:
        world = self._world
        if not world.calm:
            world.timeline.note(f"limits: {limits}")
            world.limits = limits
            world.reconfigure()


class _Plan:
    def __init__(self, world: MirrorWorld, length: float) -> None:
        self._world = world
        self._chance: Random = world.chance
        self._length = length

    def make(self) -> None:
        world, chance = self._world, self._chance
        for key in world.keys:
            for _ in range(chance.randint(0, 4)):
                world.write(key, chance.randint(1, 12))
        world.soon(self._start)
        for cluster in (world.source, world.target):
            self._often(chance.choice((0, 1, 4)), partial(self._move_leader, cluster))
            self._often(chance.choice((0, 0, 1)), partial(self._stop_broker, cluster))
            self._often(chance.choice((0, 1, 2)), partial(self._cut_connections, cluster))
            self._often(chance.choice((0, 1, 2)), partial(self._misbehave, cluster))
        self._often(chance.choice((0, 1, 2)), self._disturb_topic)
        self._often(chance.choice((0, 1)), self._disturb_coordinator)
        self._often(chance.randint(20, 60), self._write)
        self._often(chance.randint(0, 3), self._delete)
        self._often(chance.randint(0, 4), self._kill)
        self._often(chance.randint(0, 2), self._freeze)
        self._often(chance.randint(0, 2), self._stop)
        self._often(chance.randint(0, 2), self._pause)
        self._often(chance.randint(0, 3), self._reassign)
        self._often(chance.randint(0, 2), self._request_commit)
        self._often(chance.randint(0, 2), self._jump)
        self._often(chance.randint(0, 2), self._run_out_of_memory)
        self._often(chance.randint(0, 2), world.map.compact)

    def _often(self, times: int, action: Callable[[], None]) -> None:
        for _ in range(times):
            self._world.at(self._chance.uniform(0, self._length), action)

    # The source.

    def _write(self) -> None:
        self._world.write(self._chance.choice(self._world.keys), self._chance.randint(1, 12))

    def _delete(self) -> None:
        key = self._chance.choice(self._world.keys)
        partition = self._world.source.find(key)
        if partition is None:
            return
        log = partition.log
        self._world.delete_before(key, self._chance.randint(log.start, log.high))

    # Clusters.

    def _move_leader(self, cluster: Cluster) -> None:
        if cluster.partitions:
            cluster.move_leader(self._chance.choice(cluster.partitions))

    def _stop_broker(self, cluster: Cluster) -> None:
        node = self._chance.choice(list(cluster.brokers))
        if cluster.brokers[node].up:
            cluster.stop_broker(node)
            self._world.at(self._chance.uniform(0.1, 4), partial(self._start_broker, cluster, node))

    def _start_broker(self, cluster: Cluster, node: int) -> None:
        if not cluster.brokers[node].up:
            cluster.start_broker(node)

    def _cut_connections(self, cluster: Cluster) -> None:
        chance = self._chance
        for broker in cluster.brokers.values():
            for connection in list(broker.connections):
                kind = chance.randrange(4)
                if kind == 0:
                    connection.cut(
                        lose_sent=chance.random() < 0.5, told_after=0.1 * chance.random()
                    )
                elif kind == 1:
                    connection.breaks_after = chance.randrange(1, 500)

    def _misbehave(self, cluster: Cluster) -> None:
        """For a while requests fail, and metadata is old."""
        world, chance = self._world, self._chance
        much = chance.choice((0.1, 0.3))
        for what in ("refuse", "late", "fetch_error", "throttle", "evict_session"):
            setattr(cluster.faults, what, much * chance.choice((0.0, chance.random())))
        cluster.connections.delay = chance.choice((0.0005, 0.02, 0.1))
        cluster.connections.spike = much * chance.random()
        cluster.connections.cut = much
        for what in (
            "stale",
            "unavailable",
            "connect",
            "question",
            "without_topic",
            "without_leader",
        ):
            setattr(world.access[cluster.name], what, much * chance.choice((0.0, chance.random())))
        world.at(chance.uniform(0.5, 5), partial(world.behave, cluster))

    def _disturb_topic(self) -> None:
        """Writing or reading an internal topic takes long, or fails."""
        world, chance = self._world, self._chance
        faults = world.disturb(chance.choice(list(world.topic_faults)), chance.uniform(0.5, 6))
        faults.failing = chance.choice((0.0, 0.2, 1.0))
        faults.unreadable = chance.choice((0.0, 0.5))
        faults.write_s = chance.choice(((0.001, 0.02), (0.1, 2.0), (1.0, 8.0)))
        faults.read_s = chance.choice(((0.01, 0.3), (0.5, 3.0), (3.0, 12.0)))

    def _disturb_coordinator(self) -> None:
        world, chance = self._world, self._chance
        world.coordinator.faults = CoordinatorFaults(
            slow=chance.choice((0.0, 0.5)),
            spoilt=chance.choice((0.0, 0.3)),
            unknown_partition=chance.choice((0.0, 0.2)),
            refused=chance.choice((0.0, 0.3)),
            lost=chance.choice((0.0, 0.2)),
        )
        world.at(chance.uniform(0.5, 5), self._mend_coordinator)

    def _mend_coordinator(self) -> None:
        self._world.coordinator.faults = CoordinatorFaults()

    # Workers.

    def _start(self) -> None:
        if not self._world.running and not self._world.calm:
            share = self._world.exactly_once_share
            worker = self._world.start_worker(exactly_once=self._chance.random() < share)
            self._watch(worker)

    def _watch(self, worker: SimulatedWorker) -> None:
        """Another one follows when it has ended."""

        def look() -> None:
            if not worker.alive:
                self._world.at(self._chance.uniform(0, 1.5), self._start)
            elif not self._world.calm:
                self._world.at(0.2, look)

        look()

    def _some(self) -> SimulatedWorker | None:
        running = self._world.running
        return self._chance.choice(running) if running else None

    def _kill(self) -> None:
        worker = self._some()
        if worker is not None:
            worker.life.end_after(self._chance.randint(1, 200))

    def _freeze(self) -> None:
        worker = self._some()
        if worker is None or len(self._world.alive) > 1:
            return
        world, chance = self._world, self._chance
        world.freeze(worker)
        world.at(chance.uniform(0.2, 3), self._start)
        world.at(chance.uniform(0.5, 6), lambda: self._thaw(worker))

    def _thaw(self, worker: SimulatedWorker) -> None:
        world = self._world
        if not worker.alive or not worker.frozen:
            return
        world.thaw(worker)
        if any(other.alive for other in world.workers if other is not worker) or (
            world.workers[-1] is not worker
        ):
            world.at(self._chance.uniform(0, 1.5), lambda: self._disown(worker))

    def _disown(self, worker: SimulatedWorker) -> None:
        if worker.alive:
            worker.disown()

    def _stop(self) -> None:
        worker = self._some()
        if worker is not None:
            self._world.stop(worker)

    def _pause(self) -> None:
        worker = self._some()
        if worker is not None:
            worker.set_paused(paused=True)
            self._world.at(self._chance.uniform(0.1, 3), lambda: worker.set_paused(paused=False))

    def _reassign(self) -> None:
        """Partitions leave, and come back later."""
        world, chance = self._world, self._chance
        key = chance.choice(world.keys)
        if key in world.assigned:
            if len(world.assigned) == 1:
                return
            world.assigned.remove(key)
            world.at(chance.choice((0.001, 0.05, 0.5, 3)), lambda: self._bring_back(key))
        self._world.reconfigure()

    def _bring_back(self, key: tuple[str, int]) -> None:
        if key not in self._world.assigned:
            self._world.assigned.append(key)
            self._world.reconfigure()
            if self._chance.random() < 0.3:
                self._world.at(self._chance.uniform(0, 0.1), self._stop)

    def _request_commit(self) -> None:
        worker = self._some()
        if worker is not None:
            worker.commit_soon()

    def _run_out_of_memory(self) -> None:
        self._world.memory_lasts = self._chance.randint(0, 5)

    def _jump(self) -> None:
        worker = self._some()
        if worker is not None:
            worker.clock.skew_ms += self._chance.randint(-60_000, 60_000)
