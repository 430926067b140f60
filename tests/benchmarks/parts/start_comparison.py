"""Prints how long a copier takes from its start to the first record of each partition, with and
without the comparison of the target's log ends that a crash makes necessary. On real brokers.

Run: python -m tests.benchmarks.parts.start_comparison [partitions] [rounds]

Nothing was lost: each target ends where the stored facts say. Every start copies one new record a
partition. The ways take turns, and the first round is dropped.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from connectors.mirror.compare.tail_lookup import ThreadedTailLookup
from connectors.mirror.copy.context import CopyListener
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from deploy.brokers import KafkaCluster
from tests.support.copier.copying import wire
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic

PARTITIONS, ROUNDS = 500, 10
WITH, WITHOUT = "with the comparison", "without it"
START_S = 120.0


class Start:
    """One start of a copier. `first_s`, `all_s`: until the first record of the first, and of the
    last partition was acknowledged. `cpu_s`: of this process until then; it depends less on other
    work of the machine."""

    def __init__(self, source: str, target: str, topic: str, copy: str, partitions: int) -> None:
        self._settings = EngineSettings(source=wire(source), target=wire(target))
        self._topics = topic, copy
        self._partitions = partitions
        self._began = 0.0
        self.first_s = self.all_s = self.cpu_s = 0.0
        self._copied: set[int] = set()

    def _acked(self, partition: PartitionCopy, _runs: Sequence[OffsetRun], _base: int) -> None:
        self.all_s = time.perf_counter() - self._began
        self.first_s = self.first_s or self.all_s
        self._copied.add(partition.source[1])

    def run(self, position: int, *, compares: bool) -> None:
        """Copy the record at this position of each partition. Both logs end there alike."""
        source, target = self._settings.source, self._settings.target
        self._began, cpu = time.perf_counter(), time.process_time()
        lookup = ThreadedTailLookup(source, target, read_committed=False)
        listener = CopyListener(acked=self._acked)
        engine = CopyEngine(self._settings, listener, tails=lookup if compares else None)
        facts = LogIdentity(position, position, position, None, None, (), ())
        topic, copy = self._topics
        with closing(lookup), closing(engine):
            for number in range(self._partitions):
                metrics = PartitionMetrics("source", "target", copy, number)
                engine.add((topic, number), (copy, number), position, metrics, learns=True)
            engine.watch()
            for number in range(self._partitions):
                engine.learn((topic, number), facts)
            while len(self._copied) < self._partitions:
                engine.step(0.1)
                if time.perf_counter() > self._began + START_S:
                    raise TimeoutError(f"{len(self._copied)} partitions in {START_S:g} s")
            self.cpu_s = time.process_time() - cpu


def main() -> None:
    given = [int(each) for each in sys.argv[1:3]]
    partitions, rounds = [*given, *(PARTITIONS, ROUNDS)[len(given) :]]
    took: dict[str, list[Start]] = {WITHOUT: [], WITH: []}
    with KafkaCluster(name="source") as source, KafkaCluster(name="target") as target:
        ends = source.bootstrap_servers, target.bootstrap_servers
        topic, copy = (create_topic(each, partitions=partitions) for each in ends)
        for turn in range(2 * (rounds + 1)):
            way = (WITHOUT, WITH)[(turn + turn // 2) % 2]
            produce(ends[0], topic, [Record(b"v%d" % turn, None, n) for n in range(partitions)])
            start = Start(*ends, topic, copy, partitions)
            start.run(turn, compares=way == WITH)
            took[way].append(start)
    for way, starts in took.items():
        for what, name in (
            ("the first record", "first_s"),
            ("the last partition's", "all_s"),
            ("then, CPU", "cpu_s"),
        ):
            ms = [1000 * getattr(start, name) for start in starts[1:]]
            print(
                f"{partitions} partitions, {way}, to {what}: "
                f"median {statistics.median(ms):.0f} ms, least {min(ms):.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
