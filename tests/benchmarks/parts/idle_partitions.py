"""Prints what a task's looks at its partitions cost while nothing happens. No brokers, one thread.

Run: python -m tests.benchmarks.parts.idle_partitions [partitions]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import cast

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.config.settings import WireSettings
from connect.clock import Clock
from connectors.mirror.copy.context import CopyContext, CopyListener, EngineEnvironment
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.copy.stall_detector import StallDetector
from connectors.mirror.copy.throttle import Throttle
from connectors.mirror.copy.watch_list import SWEEP_S, WatchList
from connectors.mirror.metrics import PartitionMetrics
from tests.support.fake_clock import FakeClock

PARTITIONS = 10_000


class _NoCluster:
    def close(self) -> None:
        pass


def _open(
    _settings: WireSettings, _on_change: Callable[[], None], _clock: Clock, _name: str
) -> ClusterAccess:
    return cast("ClusterAccess", _NoCluster())


def _context(clock: FakeClock, count: int) -> CopyContext:
    wire = WireSettings(bootstrap=(("broker", 1),), client_id="bench")
    listener = CopyListener(acked=lambda *_: None)
    context = CopyContext(EngineSettings(wire, wire), listener, EngineEnvironment(clock, _open))
    for number in range(count):
        metrics = PartitionMetrics("s", "t", "copy", number, clock=clock)
        partition = PartitionCopy(("t", number), ("copy", number), metrics)
        partition.begin_at(100)
        partition.high_watermark, partition.log_start_offset = 100, 0
        partition.source_node = partition.target_node = 1
        context.partitions[partition.source] = partition
        context.touched[partition] = None
    return context


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    clock = FakeClock()
    context = _context(clock, count)
    stalls, watched = StallDetector(context, Throttle(context)), WatchList(context)

    def look(partitions: Iterable[PartitionCopy]) -> None:
        for partition in partitions:
            partition.drop_anchor()
            partition.forecast_loss(clock.monotonic())
        stalls.look(partitions, {}, {})

    def at_all() -> None:
        look(context.partitions.values())

    def at_watched() -> None:
        look(watched.take(()))
        watched.settle()

    for name, second in (("at all", at_all), ("at those not at rest", at_watched)):
        for _ in range(SWEEP_S):
            second()
            clock.advance(1)
        began = time.process_time()
        for _ in range(SWEEP_S):
            second()
            clock.advance(1)
        ms = (time.process_time() - began) / SWEEP_S * 1000
        print(f"{count:,} idle partitions, a look {name}: {ms:.2f} ms of CPU a second", flush=True)
    context.close()


if __name__ == "__main__":
    main()
