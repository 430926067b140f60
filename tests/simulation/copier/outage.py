"""One long trouble: for longer than the copier may keep quiet about it, nothing can be copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.kafka.cluster import Cluster

if TYPE_CHECKING:
    from tests.simulation.copier.world import CopierWorld

__all__ = ["EXACTLY_ONCE_OUTAGES", "LASTS_S", "OUTAGES", "Outage"]

LASTS_S = 24.0
"""Longer than `status_oracle.TOLD_S`."""

OUTAGES = (
    "source down", "source silent", "source leaderless", "source refuses", "source unknown",
    "target down", "target silent", "target leaderless", "target refuses", "target unknown",
    "replicas missing", "replicas do not follow",
)  # fmt: skip
EXACTLY_ONCE_OUTAGES = ("coordinator away", "commits refused")

_AGAIN_S = 0.2


class Outage:
    """`begin` it once; it ends by itself."""

    def __init__(self, world: CopierWorld, name: str) -> None:
        self._world = world
        self._name = name
        self._time = world.time
        self._until = 0.0

    def begin(self) -> None:
        self._world.note(f"outage: {self._name}")
        self._until = self._time.monotonic() + LASTS_S
        cluster = self._world.source if self._name.startswith("source") else self._world.target
        self._act(cluster)

    def _act(self, cluster: Cluster) -> None:
        """Cause it, and again, as other troubles may end it."""
        world = self._world
        if world.healed:
            return
        over = self._time.monotonic() >= self._until
        kind = self._name.removeprefix("source ").removeprefix("target ")
        actions: dict[str, Callable[[Cluster, bool], None]] = {
            "down": _down,
            "silent": _silent,
            "leaderless": _leaderless,
            "refuses": _refuses,
            "replicas missing": _replicas_missing,
            "replicas do not follow": _replicas_do_not_follow,
        }
        if kind == "unknown":
            side = world.plan.source if cluster is world.source else world.plan.target
            side.access.without_topic = 0.0 if over else 1.0
        elif kind == "coordinator away":
            assert world.coordinator is not None
            world.coordinator.faults.refused = 0.0 if over else 1.0
        elif kind == "commits refused":
            assert world.coordinator is not None
            world.coordinator.faults.uncommitted = not over
        else:
            actions[kind](cluster, over)
        if over:
            world.note(f"outage: {self._name}, over")
        else:
            self._time.after(_AGAIN_S, lambda: self._act(cluster))


def _down(cluster: Cluster, over: bool) -> None:
    for node_id, broker in cluster.brokers.items():
        if over and not broker.up:
            cluster.start_broker(node_id)
        elif not over and broker.up:
            cluster.stop_broker(node_id)


def _silent(cluster: Cluster, over: bool) -> None:
    for broker in cluster.brokers.values():
        for connection in () if over else list(broker.connections):
            if connection.alive:
                connection.fall_silent()


def _leaderless(cluster: Cluster, over: bool) -> None:
    for partition in cluster.partitions:
        if over and partition.leader < 0:
            cluster.move_leader(partition)
        elif not over and partition.leader >= 0:
            cluster.lose_leader(partition)


def _refuses(cluster: Cluster, over: bool) -> None:
    cluster.faults.fetch_error = cluster.faults.refuse = 0.0 if over else 1.0


def _replicas_missing(cluster: Cluster, over: bool) -> None:
    for partition in cluster.partitions:
        partition.enough_replicas = over


def _replicas_do_not_follow(cluster: Cluster, over: bool) -> None:
    for partition in cluster.partitions:
        if over:
            cluster.resume_replication(partition)
        else:
            partition.replicating = False
