"""Metrics of a worker group member: Kafka's group `connect-coordinator-metrics`.

A rebalance lasts from the start of a join to the new assignment. The time that the worker then
needs to apply it is in `connect-worker-rebalance-metrics`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.registry import MetricRegistry
from connect.metrics.sensors import Rate, WindowedStat

__all__ = ["COORDINATOR_GROUP", "CoordinatorMetrics"]

COORDINATOR_GROUP = "connect-coordinator-metrics"
_HOUR_S = 3600


class _Requests:
    """Responses of one kind: count, rate and latency."""

    def __init__(self) -> None:
        self.total = 0
        self._rate = Rate()
        self._ms = WindowedStat()

    def record(self, ms: float, now_ms: int) -> None:
        self.total += 1
        self._rate.record(1, now_ms)
        self._ms.record(ms, now_ms)

    def rate(self, now_ms: int) -> float:
        return self._rate.per_second(now_ms)

    def times(self, now_ms: int) -> tuple[float, float]:
        """Return (max, avg) in milliseconds."""
        _, longest, mean = self._ms.summary(now_ms)
        return longest, mean


class CoordinatorMetrics:
    """Metrics of the group coordinator client: joins, syncs, heartbeats and rebalances. Durations
    are in milliseconds. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._joins, self._syncs, self._heartbeats = _Requests(), _Requests(), _Requests()
        self._rebalances = _Requests()
        self._rebalance_ms_total = 0.0
        self._failures, self._failure_rate = 0, Rate()
        self._rebalancing_since: float | None = None
        self._heartbeat_at: float | None = None
        self._rebalanced_at: float | None = None

    # Called by the member.

    def joined(self, ms: float) -> None:
        """Record a successful JoinGroup."""
        with self._lock:
            self._joins.record(ms, self._clock.now_ms())

    def synced(self, ms: float) -> None:
        """Record a successful SyncGroup."""
        with self._lock:
            self._syncs.record(ms, self._clock.now_ms())

    def heartbeat_sent(self) -> None:
        with self._lock:
            self._heartbeat_at = self._clock.monotonic()

    def heartbeat_answered(self, ms: float) -> None:
        with self._lock:
            self._heartbeats.record(ms, self._clock.now_ms())

    def rebalance_begun(self) -> None:
        """Record the start of a rebalance. Does nothing if one is in progress."""
        with self._lock:
            if self._rebalancing_since is None:
                self._rebalancing_since = self._clock.monotonic()

    def rebalance_failed(self) -> None:
        """Record a join that ended without an assignment; the member joins again."""
        with self._lock:
            self._failures += 1
            self._failure_rate.record(1, self._clock.now_ms())

    def rebalance_completed(self) -> None:
        """Record the end of a rebalance: the member has an assignment."""
        with self._lock:
            now = self._clock.monotonic()
            since = now if self._rebalancing_since is None else self._rebalancing_since
            ms = (now - since) * 1000
            self._rebalancing_since, self._rebalanced_at = None, now
            self._rebalance_ms_total += ms
            self._rebalances.record(ms, self._clock.now_ms())

    # Called to publish and read the metrics.

    def register(
        self, registry: MetricRegistry, client_id: str, assigned: Callable[[], tuple[int, int]]
    ) -> Callable[[], None]:
        """Publish the metrics, with the numbers of assigned connectors and tasks.

        Returns a function that removes them.
        """
        return registry.register(
            COORDINATOR_GROUP, {"client-id": client_id}, lambda: self.read(*assigned())
        )

    def read(self, connectors: int, tasks: int) -> Mapping[str, float]:
        """Return all attributes. As in Java, -1 is the time since an event that has not happened
        yet.
        """
        with self._lock:
            now_ms, now = self._clock.now_ms(), self._clock.monotonic()
            join_max, join_avg = self._joins.times(now_ms)
            sync_max, sync_avg = self._syncs.times(now_ms)
            rebalance_max, rebalance_avg = self._rebalances.times(now_ms)
            heartbeat_max, _ = self._heartbeats.times(now_ms)
            return {
                "assigned-connectors": float(connectors),
                "assigned-tasks": float(tasks),
                "join-total": float(self._joins.total),
                "join-rate": self._joins.rate(now_ms),
                "join-time-max": join_max,
                "join-time-avg": join_avg,
                "sync-total": float(self._syncs.total),
                "sync-rate": self._syncs.rate(now_ms),
                "sync-time-max": sync_max,
                "sync-time-avg": sync_avg,
                "heartbeat-total": float(self._heartbeats.total),
                "heartbeat-rate": self._heartbeats.rate(now_ms),
                "heartbeat-response-time-max": heartbeat_max,
                "last-heartbeat-seconds-ago": _seconds_ago(self._heartbeat_at, now),
                "rebalance-total": float(self._rebalances.total),
                "rebalance-rate-per-hour": self._rebalances.rate(now_ms) * _HOUR_S,
                "rebalance-latency-max": rebalance_max,
                "rebalance-latency-avg": rebalance_avg,
                "rebalance-latency-total": self._rebalance_ms_total,
                "last-rebalance-seconds-ago": _seconds_ago(self._rebalanced_at, now),
                "failed-rebalance-total": float(self._failures),
                "failed-rebalance-rate-per-hour": self._failure_rate.per_second(now_ms) * _HOUR_S,
            }


def _seconds_ago(at: float | None, now: float) -> float:
    return -1.0 if at is None else float(int(now - at))
