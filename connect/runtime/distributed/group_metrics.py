"""Metrics of a distributed worker's group: rebalances and membership."""

from __future__ import annotations

from collections.abc import Callable

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.coordinator_metrics import CoordinatorMetrics
from connect.metrics.rebalance_metrics import RebalanceMetrics
from connect.metrics.registry import MetricRegistry
from connect.runtime.distributed.membership import Membership

__all__ = ["GroupMetrics"]

# By group protocol version, as in Java's metric.
_PROTOCOLS = ("EAGER", "COMPATIBLE", "SESSIONED")


class GroupMetrics:
    """Updates metrics on the herder's thread. The herder's owner calls `show` and `hide`."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._rebalances = RebalanceMetrics(clock)
        self._removers: list[Callable[[], None]] = []

    def rebalance_started(self) -> None:
        self._rebalances.started(self._clock.now_ms())

    def rebalance_completed(self, generation: int, leader_url: str, protocol: int) -> None:
        self._rebalances.completed(
            self._clock.now_ms(), generation, leader_url, _PROTOCOLS[protocol]
        )

    def show(
        self,
        registry: MetricRegistry,
        coordinator: CoordinatorMetrics,
        client_id: str,
        membership: Membership,
    ) -> None:
        def assigned() -> tuple[int, int]:
            instances = membership.assigned
            tasks = sum(instance.is_task for instance in instances)
            return len(instances) - tasks, tasks

        self._removers = [
            self._rebalances.register(registry),
            coordinator.register(registry, client_id, assigned),
        ]

    def hide(self) -> None:
        for remove in self._removers:
            remove()
