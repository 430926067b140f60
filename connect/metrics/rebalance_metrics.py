"""Rebalance metrics of a worker: Kafka's group `connect-worker-rebalance-metrics`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.registry import MetricRegistry
from connect.metrics.sensors import WindowedStat

__all__ = ["REBALANCE_GROUP", "RebalanceMetrics"]

REBALANCE_GROUP = "connect-worker-rebalance-metrics"


class RebalanceMetrics:
    """Counts and times of a worker's rebalances. Times are milliseconds since the epoch.

    `started` and `completed` are for the herder's thread, the rest for any thread.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started_ms: int | None = None
        self._completed_ms: int | None = None
        self._completed = self._epoch = 0
        self._leader = self._protocol = ""
        self._times = WindowedStat()

    def started(self, now_ms: int) -> None:
        """Record the start of a rebalance. Does nothing if one is in progress."""
        with self._lock:
            if self._started_ms is None:
                self._started_ms = now_ms

    def completed(self, now_ms: int, epoch: int, leader_url: str, protocol: str) -> None:
        """Record that this worker has applied its assignment.

        `epoch` is the group's generation, `protocol` the name of the elected protocol in any case.
        """
        with self._lock:
            if self._started_ms is not None:
                self._times.record(max(0, now_ms - self._started_ms), now_ms)
            self._started_ms, self._completed_ms = None, now_ms
            self._completed += 1
            self._epoch, self._leader, self._protocol = epoch, leader_url, protocol.upper()

    def register(self, registry: MetricRegistry) -> Callable[[], None]:
        """Publish the metrics. Return a function that removes them."""
        return registry.register(REBALANCE_GROUP, {}, self.read)

    def read(self) -> Mapping[str, float | str]:
        """Return all attributes. The time since the last rebalance is infinite before the first, as
        in Java.
        """
        with self._lock:
            now_ms = self._clock.now_ms()
            _, longest, mean = self._times.summary(now_ms)
            since = math.inf
            if self._completed_ms is not None:
                since = float(max(0, now_ms - self._completed_ms))
            return {
                "leader-name": self._leader,
                "connect-protocol": self._protocol,
                "epoch": float(self._epoch),
                "completed-rebalances-total": float(self._completed),
                "rebalancing": 0.0 if self._started_ms is None else 1.0,
                "rebalance-max-time-ms": longest,
                "rebalance-avg-time-ms": mean,
                "time-since-last-rebalance-ms": since,
            }
