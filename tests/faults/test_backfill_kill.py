"""kill -9 of a backfill on Spark, in the middle: started again it goes on, and nothing is there
twice, as what was copied and not stored is found on the target.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import end_offset, has_topic
from tests.support.waiting import wait_until

PARTITIONS, RECORDS, SIZE = 3, 6000, 1000
KILLS = 2


def _start(file: Path, log: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("connect-mirror-backfill")
    arguments = ["--rate", "600kB/s", "--piece-bytes", "400kB", "--parallel", "2"]
    with log.open("ab") as out:
        return subprocess.Popen([program, file, *arguments], stdout=out, stderr=out)


def _copied(flow: MirroredFlow, topic: str) -> int:
    if not has_topic(flow.target_servers, flow.remote(topic)):
        return 0
    return sum(end_offset(flow.target_servers, flow.remote(topic), n) for n in range(PARTITIONS))


def _grown(flow: MirroredFlow, topic: str, records: int) -> bool:
    return _copied(flow, topic) > records


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_in_the_middle_it_goes_on_and_doubles_nothing(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = numbered(RECORDS, partition=partition, size=SIZE)
        produce(flow.source_servers, topic, records, batch_records=20)
    properties = flow.properties({"spark.master": "local[2]"})
    file, log = properties_file(properties, tmp_path), logs / "backfill.log"
    draw = random.Random(3)
    for _ in range(KILLS):
        program = _start(file, log)
        try:
            wait_until(
                partial(_grown, flow, topic, _copied(flow, topic) + 500), 150.0, "copying goes on"
            )
            time.sleep(draw.uniform(0.5, 3.0))
            assert program.poll() is None, log.read_text()
        finally:
            program.kill()
            program.wait(30.0)

    program = _start(file, log)
    try:
        assert program.wait(300.0) == 0, log.read_text()
    finally:
        program.kill()
        program.wait(30.0)

    print(log.read_text())
    assert_equal_logs(flow, topic)
    ends = {(topic, n): RECORDS - 1 for n in range(PARTITIONS)}
    assert flow.stored_offsets() == ends
    mirror_log = logs / "mirror.log"
    with running(flow.properties(), tmp_path, mirror_log) as mirror:
        for partition in range(PARTITIONS):
            produce(flow.source_servers, topic, numbered(10, start=RECORDS, partition=partition))
        flow.wait_records(topic, [RECORDS + 10] * PARTITIONS)
        stop_cleanly(mirror, mirror_log)
    assert_equal_logs(flow, topic)
