"""A mirror that writes exactly once, killed, paused and cut off in the middle of transactions.

Readers of committed records of the target see every record of the source once, in order; readers
of all records see more: what was aborted.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.exactly_once_mirror import OnceMirror, mirror_process
from tests.support.flows.killed_mirrors import caught_up, make_topics, wait_copying, wait_rounds
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.offset_records import offset_map
from tests.support.records.producing import meanwhile, numbered, produce
from tests.support.records.reading import contents, numbers, read_partition
from tests.support.records.steady import SteadyWriter
from tests.support.records.topics import create_topic, end_offset, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 90.0
PARTITIONS = 3
KILLS = 6
ONCE = {
    "A.consumer.isolation.level": "read_committed",
    "B.exactly.once.source.support": "enabled",
    "config.properties.exclude": ".*",
}


class Copy:
    """A topic that grows, and a mirror of it that writes exactly once."""

    def __init__(self, source: str, target: str, *, replication: int = 1, size: int = 200) -> None:
        self.source, self.target = source, target
        self.topic = create_topic(source, "once", partitions=PARTITIONS)
        self.copy = create_topic(
            target, partitions=PARTITIONS, replication=replication, name=f"A.{self.topic}"
        )
        partitions = [f"{self.topic}-{n}" for n in range(PARTITIONS)]
        self.mirror = OnceMirror(source, target, unique("once"), partitions)
        self.written = 0
        self._size = size

    def write(self, count: int) -> None:
        for partition in range(PARTITIONS):
            records = numbered(count, start=self.written, size=self._size, partition=partition)
            produce(self.source, self.topic, records, batch_records=20)
        self.written += count

    def writing(self) -> AbstractContextManager[None]:
        """More and more records meanwhile."""
        return meanwhile(lambda: self.write(100), 0.02)

    def values(self, partition: int, isolation: str) -> list[int]:
        return numbers(read_partition(self.target, self.copy, partition, isolation=isolation))

    def grows(self) -> None:
        before = end_offset(self.target, self.copy)
        wait_until(lambda: end_offset(self.target, self.copy) > before, TIMEOUT_S, "copying")

    def all_there(self) -> None:
        for partition in range(PARTITIONS):
            wait_until(
                partial(self._has_last, partition),
                TIMEOUT_S,
                f"{self.written} records of partition {partition}",
            )

    def _has_last(self, partition: int) -> bool:
        return self.values(partition, "read_committed")[-1:] == [self.written - 1]

    def once(self) -> int:
        """Every record once, in order; how many more were written and aborted."""
        aborted = 0
        for partition in range(PARTITIONS):
            assert self.values(partition, "read_committed") == list(range(self.written))
            aborted += len(self.values(partition, "read_uncommitted")) - self.written
        return aborted


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("boundary", "seed"), [("poll", 1), ("interval", 2)])
def test_killed_again_and_again_each_record_is_there_once(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    boundary: str,
    seed: int,
) -> None:
    copy = Copy(source_cluster.bootstrap_servers, target_cluster.bootstrap_servers)
    copy.mirror.options["transaction.boundary"] = boundary
    # With intervals every kill hits an open transaction: until the last run none ends by itself.
    copy.mirror.options["transaction.boundary.interval.ms"] = "600000"
    draw = random.Random(seed)
    with copy.writing():
        for _ in range(KILLS):
            with mirror_process(copy.mirror, logs / "mirror.log") as process:
                copy.grows()
                time.sleep(draw.uniform(0.0, 1.0))
                process.kill()
    copy.mirror.options["transaction.boundary.interval.ms"] = "1000"
    with mirror_process(copy.mirror, logs / "mirror.log") as process:
        copy.all_there()
        assert process.stop(30.0) == 0
    aborted = copy.once()
    if boundary == "interval":
        assert aborted >= KILLS


@pytest.mark.slow
def test_a_zombie_that_wakes_up_writes_nothing_more(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path
) -> None:
    copy = Copy(source_cluster.bootstrap_servers, target_cluster.bootstrap_servers)
    with copy.writing(), mirror_process(copy.mirror, logs / "zombie.log") as zombie:
        copy.grows()
        os.kill(zombie.pid, signal.SIGSTOP)
        try:
            with mirror_process(copy.mirror, logs / "heir.log") as heir:
                copy.grows()
                os.kill(zombie.pid, signal.SIGCONT)
                wait_until(
                    lambda: "Another producer has claimed" in (logs / "zombie.log").read_text(),
                    TIMEOUT_S,
                    "the zombie hears that it is one",
                )
                copy.grows()
                assert heir.running()
        finally:
            os.kill(zombie.pid, signal.SIGCONT)
    with mirror_process(copy.mirror, logs / "heir.log") as process:
        copy.all_there()
        assert process.stop(30.0) == 0
    copy.once()


@pytest.mark.slow
def test_brokers_of_the_target_restarted_one_by_one_double_nothing(
    source_cluster: KafkaCluster, kafka: KafkaRuntime, logs: Path
) -> None:
    properties = {
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.replication.factor": "3",
        "min.insync.replicas": "2",
    }
    with KafkaCluster(3, name="three", properties=properties, kafka=kafka, logs=logs) as target:
        copy = Copy(source_cluster.bootstrap_servers, target.bootstrap_servers, replication=3)
        copy.mirror.replication = 3
        log = logs / "mirror.log"
        with mirror_process(copy.mirror, log) as process:
            with copy.writing():
                # One of them is the coordinator, and each leads a partition.
                for node in target.nodes:
                    copy.grows()
                    node.kill()
                    time.sleep(1.0)
                    target.restart()
                    copy.grows()
            copy.all_there()
            assert process.running(), log.read_text()
            assert "FAILED" not in log.read_text()
        copy.once()


@pytest.mark.slow
def test_a_dedicated_mirror_killed_five_times_copies_each_record_once(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    draw = random.Random(1)
    properties = flow.properties(ONCE)
    with SteadyWriter(flow.source_servers, *topics) as writer:
        wait_rounds(writer, 10)
        for _ in range(5):
            with running(properties, tmp_path, log) as mirror:
                wait_copying(flow, next(iter(topics)))
                time.sleep(draw.uniform(0.0, 1.5))
                assert mirror.running(), log.read_text()
                mirror.kill()
    with running(properties, tmp_path, log) as mirror:
        caught_up(flow, topics)
        stop_cleanly(mirror, log)
    for topic, count in topics.items():
        for partition in range(count):
            before = read_partition(
                flow.source_servers, topic, partition, isolation="read_committed"
            )
            after = read_partition(
                flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
            )
            if topic.endswith("compacted"):
                kept = {record.content() for record in before}
                after = [record for record in after if record.content() in kept]
            assert contents(after) == contents(before), f"{topic}-{partition}"
            # Where the map knows a record it is right: it knows nothing of what was aborted.
            translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
            copies = {record.offset: record.content() for record in after}
            known = [
                (record, translate.downstream(record.offset))
                for record in before
                if any(s.source <= record.offset < s.source + s.length for s in translate.segments)
            ]
            assert known
            assert all(copies[there or 0] == record.content() for record, there in known)
