"""What befalls a copier and its clusters, one trouble at a time, as the seed chooses."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit
from tests.simulation.copier.worker import SOURCE, TARGET
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.network import Connection
from tests.simulation.kafka.partition import NO_LEADER, SimulatedPartition

if TYPE_CHECKING:
    from tests.simulation.copier.world import CopierWorld
    from tests.simulation.copier.writer import SourceWriter
    from tests.simulation.kafka.wire_format import FetchedPart

__all__ = ["Troubles"]

MOST_AGE_S = 5.0
"""A broker's metadata is that of another topic for so long, and for two seconds more, at most."""

_LATE_S = 2.5
"""Well below the time after which the copier gives up a silent connection."""

_OFFSET_0 = bytes(8)
"""The first bytes of a batch at offset 0."""


class Troubles:
    """Each trouble of the plan is a method; `one` causes one of them, now."""

    def __init__(self, world: CopierWorld) -> None:
        self._world = world
        self._rng: random.Random = world.rng
        self._time = world.time
        self._source: Cluster = world.source
        self._target: Cluster = world.target
        causes: dict[str, Callable[[], None]] = {
            "source leader": lambda: self._move_leader(self._source),
            "source cut": lambda: self._cut(self._source),
            "source silent": lambda: self._silence(self._source),
            "source broker": lambda: self._stop_broker(self._source),
            "retention": self._retention,
            "compaction": lambda: self._writer().compact_some(),
            "source unclean": self._source_unclean,
            "source recreated": self._source_recreated,
            "source grows": lambda: world.command("grow"),
            "target leader": lambda: self._move_leader(self._target),
            "target cut": lambda: self._cut(self._target),
            "target silent": lambda: self._silence(self._target),
            "target broker": lambda: self._stop_broker(self._target),
            "target broken send": self._break_send,
            "few replicas": self._few_replicas,
            "slow replicas": self._slow_replicas,
            "target leaderless": self._leaderless,
            "small messages": self._small_messages,
            "refused again": self._refused_again,
            "refused late": self._refused_late,
            "forgotten producers": self._forget_producers,
            "target unclean": self._target_unclean,
            "target recreated": self._target_recreated,
            "bad records": self._bad_records,
            "source old broker": lambda: self._old_broker(self._source),
            "target old broker": lambda: self._old_broker(self._target),
            "crash": world.crash_soon,
            "restart": lambda: world.command("restart"),
            "freeze": lambda: world.command("freeze"),
            "pause": lambda: world.command("pause"),
            "limit": self._limit,
            "reassign": self._reassign,
            "clock": self._jump,
        }
        self._causes = [causes[name] for name in world.plan.troubles]

    def one(self) -> None:
        if self._causes and self._target.partitions:
            self._rng.choice(self._causes)()

    def _later(self, most_s: float, action: Callable[[], None]) -> None:
        self._time.after(most_s * self._rng.random(), action)

    def _writer(self) -> SourceWriter:
        return self._rng.choice(list(self._world.writers.values()))

    def _copy(self) -> SimulatedPartition:
        """A partition on the target: of the copy, or of the offsets topic."""
        return self._rng.choice(self._target.partitions)

    # Both clusters.

    def _move_leader(self, cluster: Cluster) -> None:
        if cluster.partitions:
            cluster.move_leader(self._rng.choice(cluster.partitions))

    def _connection(self, cluster: Cluster) -> Connection | None:
        found = [c for broker in cluster.brokers.values() for c in broker.connections if c.alive]
        return self._rng.choice(found) if found else None

    def _cut(self, cluster: Cluster) -> None:
        connection = self._connection(cluster)
        if connection is not None:
            self._world.note(f"{cluster.name}: a connection is reset")
            told_after = self._rng.choice((0.0, 0.0, 0.05)) * self._rng.random()
            connection.cut(lose_sent=self._rng.random() < 0.5, told_after=told_after)

    def _silence(self, cluster: Cluster) -> None:
        connection = self._connection(cluster)
        if connection is not None:
            self._world.note(f"{cluster.name}: a connection falls silent")
            connection.fall_silent()

    def _stop_broker(self, cluster: Cluster) -> None:
        up = cluster.nodes_up
        if up and (len(up) > 1 or self._rng.random() < 0.3):
            node_id = self._rng.choice(up)
            cluster.stop_broker(node_id)
            self._later(2.0, lambda: self._start_broker(cluster, node_id))

    @staticmethod
    def _start_broker(cluster: Cluster, node_id: int) -> None:
        if not cluster.brokers[node_id].up:
            cluster.start_broker(node_id)

    def _old_broker(self, cluster: Cluster) -> None:
        """A broker that was cut off does not know yet that a topic is another one; the copier
        begins anew meanwhile."""
        before, now = cluster.view_before, self._time.monotonic()
        if before is None or now - before[0] > MOST_AGE_S or not cluster.topics:
            return
        self._world.note(f"{cluster.name}: a broker's metadata is old")
        cluster.old_until = now + 2.0
        if self._rng.random() < 0.7:
            self._world.command("restart")

    # The source.

    def _retention(self) -> None:
        writer = self._writer()
        writer.delete_some()
        if writer.partition is not None:
            self._world.source_log_starts(writer.key, writer.partition.log.start)

    def _source_unclean(self) -> None:
        writer = self._writer()
        partition = writer.partition
        led = partition is not None and partition.leader != NO_LEADER
        if partition is None or not led or not self._source.nodes_up:
            return
        # Not below the log's start: one who began there, and has read nothing, cannot know of it.
        log = partition.log
        recent = [batch for batch in log.batches[-8:] if batch.base >= log.start]
        if recent:
            self._source.truncate(partition, self._rng.choice(recent).base)

    def _source_recreated(self) -> None:
        if SOURCE not in self._source.topics:
            return
        self._world.source_is_deleted()
        self._source.delete(SOURCE)
        self._later(1.0, self._world.create_source)

    def answer_late(self) -> None:
        """The first answer with records from the beginning of a log takes so long that the topic is
        another one when it arrives."""

        def answers(connection: Connection, parts: Sequence[FetchedPart]) -> None:
            if any(part.records.startswith(_OFFSET_0) for part in parts):
                self._source.on_fetched = lambda *_: None
                connection.hold_answers(_LATE_S)
                self._time.after(0.0, self._recreate_source_at_once)

        self._source.on_fetched = answers

    def _recreate_source_at_once(self) -> None:
        if not self._world.healed and SOURCE in self._source.topics:
            self._world.source_is_deleted()
            self._source.delete(SOURCE)
            self._world.create_source()

    # The target.

    def _break_send(self) -> None:
        connection = self._connection(self._target)
        if connection is not None:
            connection.breaks_after = self._rng.choice((0, 0, 0, 30, 200))

    def _few_replicas(self) -> None:
        partition = self._copy()
        partition.enough_replicas = False
        self._world.note(f"target {partition.key}: too few replicas in sync")
        self._later(1.5, lambda: setattr(partition, "enough_replicas", True))

    def _slow_replicas(self) -> None:
        partition = self._copy()
        partition.replicating = False
        self._world.note(f"target {partition.key}: replicas do not follow")
        self._later(2.0, lambda: self._target.resume_replication(partition))

    def _leaderless(self) -> None:
        partition = self._copy()
        if partition.leader != NO_LEADER:
            self._target.lose_leader(partition)
            self._later(2.0, lambda: self._lead_again(partition))

    def _lead_again(self, partition: SimulatedPartition) -> None:
        if partition.leader == NO_LEADER and self._target.nodes_up:
            self._target.move_leader(partition)

    def _small_messages(self) -> None:
        partition = self._copy()
        if partition.topic != TARGET:
            return
        self._allow_at_most(partition, self._rng.choice((150, 400, 1_000)))

    def _refused_again(self) -> None:
        """The answer for the next batch of a partition is lost, and then the batch is too large."""
        partition = self._copy()
        if partition.topic == TARGET:
            self._world.after_append(partition.key, lambda: self._refuse_again(partition))

    def _refuse_again(self, partition: SimulatedPartition) -> None:
        self._cut_leader(partition)
        self._allow_at_most(partition, 60)

    def _refused_late(self) -> None:
        """Partitions cannot be added to a transaction, and while the answer is on its way the rest
        of it is to be committed."""
        if self._world.coordinator is not None:
            self._world.coordinator.refuse_late(lambda: self._world.command("commit"))

    def _cut_leader(self, partition: SimulatedPartition) -> None:
        leader = self._target.brokers.get(partition.leader)
        for connection in [] if leader is None else list(leader.connections):
            connection.cut(lose_sent=False)

    def _allow_at_most(self, partition: SimulatedPartition, most: int) -> None:
        # A batch that was appended, and is sent again, is refused as too large all the same.
        self._world.oracle.of_target(partition.key).forgive()
        partition.max_message_bytes = most
        self._world.note(f"target {partition.key}: at most {most} bytes")
        self._later(3.0, lambda: setattr(partition, "max_message_bytes", 1 << 20))

    def _forget_producers(self) -> None:
        partition = self._copy()
        if partition.topic == TARGET:
            self._target.forget_producers(partition)
            self._world.producers_forgotten(partition.key)

    def _target_unclean(self) -> None:
        partition = self._copy()
        led = partition.leader != NO_LEADER and bool(self._target.nodes_up)
        if partition.topic == TARGET and led and partition.log.batches:
            log = partition.log
            recent = [each for each in log.batches[-8:] if not log.hangs_without(each.base)]
            if recent:
                self._target.truncate(partition, self._rng.choice(recent).base)

    def _target_recreated(self) -> None:
        if TARGET in self._target.topics:
            self._world.target_is_deleted()
            self._target.delete(TARGET)
            self._later(1.0, self._world.create_target)

    def _bad_records(self) -> None:
        self._world.oracle.forgive()
        self._world.bad_every = self._rng.choice((3, 7, 20))
        self._later(3.0, lambda: setattr(self._world, "bad_every", 0))

    # The copier.

    def _limit(self) -> None:
        rate = RateLimit(
            bytes=self._rng.choice((None, 2_000.0, 20_000.0)), records=self._rng.choice((None, 100))
        )
        limits = FlowLimits(rate) if self._rng.random() < 0.7 else NO_LIMITS
        self._world.command("limit", limits)

    def _reassign(self) -> None:
        self._world.command("reassign")

    def _jump(self) -> None:
        milliseconds = self._rng.choice((-3_600_000, -500, 500, 3_600_000))
        self._world.note(f"the wall clock jumps by {milliseconds} ms")
        self._time.jump(milliseconds)
