"""Checkpoint latency under MirrorMaker 2's names: one gauge per group and partition.

The producer's thread updates it, and the metrics exposition reads it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.catalogue import MIRROR_CHECKPOINT_GROUP
from connect.metrics.registry import MetricRegistry
from connect.metrics.sensors import WindowedStat

__all__ = ["CheckpointMetrics"]


class CheckpointMetrics:
    """The gauges of one task. They appear with the first acknowledged checkpoint."""

    def __init__(
        self, registry: MetricRegistry, source: str, target: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._registry = registry
        self._aliases = (source, target)
        self._clock = clock
        self._lock = threading.Lock()
        self._stats: dict[tuple[str, str, int], WindowedStat] = {}
        self._removers: list[Callable[[], None]] | None = []

    def acknowledged(self, group: str, topic: str, partition: int, read_at_ms: int) -> None:
        """Record that a checkpoint is on the target. `read_at_ms`: when its group's offsets were
        read. `topic`: the topic's name on the target."""
        now_ms = self._clock.now_ms()
        key = (group, topic, partition)
        with self._lock:
            stat = self._stats.get(key)
            if stat is None:
                if self._removers is None:
                    return
                stat = self._stats[key] = WindowedStat()
                self._removers.append(self._register(key, stat))
            stat.record(now_ms - read_at_ms, now_ms)

    def remove(self) -> None:
        """Remove all gauges. No new one appears afterwards."""
        with self._lock:
            removers, self._removers = self._removers or [], None
        for remove in removers:
            remove()

    def _register(self, key: tuple[str, str, int], stat: WindowedStat) -> Callable[[], None]:
        def read() -> dict[str, float]:
            least, most, mean = stat.summary(self._clock.now_ms())
            return {
                "checkpoint-latency-ms": stat.last,
                "checkpoint-latency-ms-min": least,
                "checkpoint-latency-ms-max": most,
                "checkpoint-latency-ms-avg": mean,
            }

        group, topic, partition = key
        # The tags are in the order of MirrorMaker 2's MBean names.
        tags = {
            "source": self._aliases[0],
            "target": self._aliases[1],
            "group": group,
            "topic": topic,
            "partition": str(partition),
        }
        return self._registry.register(MIRROR_CHECKPOINT_GROUP, tags, read)
