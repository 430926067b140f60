"""A backfill whose cluster loses a machine: nothing is lost or doubled, and the live flow goes on
right behind it, while the source is written all the time.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.killed_mirrors import (
    PROPERTIES,
    caught_up,
    check,
    make_topics,
    wait_rounds,
)
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.steady import SteadyWriter
from tests.support.records.topics import end_offset, has_topic
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python
from tests.support.waiting import wait_until

WAIT_S = 240.0
PARTITIONS, RECORDS, SIZE = 2, 8000, 1000
SMALL = {**SMALL_EXECUTORS, **QUICK_JVM, "spark.cores.max": "2"}


def write_history(flow: MirroredFlow, plain: str, transactional: str, keyed: str) -> None:
    """Something of each kind; no value comes twice in a partition, nor with `SteadyWriter`'s."""
    for partition in range(PARTITIONS):
        records = numbered(RECORDS, partition=partition, size=SIZE)
        produce(flow.source_servers, plain, records, batch_records=20)
    groups = [(numbered(50, start=50 * n, size=100), n % 3 != 1) for n in range(30)]
    produce_transactions(flow.source_servers, transactional, groups)
    again = [Record(b"v%d" % n, b"k%d" % (n % 100)) for n in range(3000)]
    produce(flow.source_servers, keyed, again, batch_records=50)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_machine_lost_in_its_middle_costs_nothing_and_the_flow_goes_on_behind_it(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log, mirror_log = logs / "backfill.log", logs / "mirror.log"
    topics = make_topics(flow)
    plain, transactional, keyed = topics
    write_history(flow, plain, transactional, keyed)

    def copied() -> int:
        if not has_topic(flow.target_servers, flow.remote(plain)):
            return 0
        return sum(
            end_offset(flow.target_servers, flow.remote(plain), n) for n in range(PARTITIONS)
        )

    with ExitStack() as writing:
        writer = writing.enter_context(SteadyWriter(flow.source_servers, *topics))
        wait_rounds(writer, 10)
        with SparkCluster(2, path=[bare_python(tmp_path / "python")], logs=logs) as cluster:
            properties = flow.properties({**PROPERTIES, **SMALL, "spark.master": cluster.url})
            program = Path(sys.executable).with_name("connect-mirror-backfill")
            arguments = ["--rate", "500kB/s", "--piece-bytes", "1MB"]
            with (
                log.open("ab") as out,
                subprocess.Popen(
                    [program, properties_file(properties, tmp_path), *arguments],
                    stdout=out,
                    stderr=out,
                ) as running_backfill,
            ):
                try:
                    wait_until(lambda: copied() > 0, WAIT_S, "copying begins")
                    wait_until(lambda: len(cluster.executors()) == 2, WAIT_S, "two executors")
                    before = copied()
                    wait_until(lambda: copied() > before + 500, WAIT_S, "copying goes on")
                    cluster.kill_worker(1)
                    assert copied() < PARTITIONS * RECORDS, "it was too late for the test"
                    assert running_backfill.wait(WAIT_S) == 0, log.read_text()
                finally:
                    running_backfill.kill()
        print(log.read_text())
        assert "it is unknown how many of its records the target has" in log.read_text()
        for partition in range(PARTITIONS):
            assert flow.stored_offsets()[plain, partition] >= RECORDS - 1
        with running(flow.properties(PROPERTIES), tmp_path, mirror_log) as mirror:
            wait_rounds(writer, 30)
            writing.close()
            caught_up(flow, topics, WAIT_S)
            stop_cleanly(mirror, mirror_log)
    assert check(flow, {plain: PARTITIONS, transactional: 1}, 0) == 0
    # What compaction took meanwhile cannot be found on the target: that piece is copied again.
    check(flow, {keyed: 1}, 1)
