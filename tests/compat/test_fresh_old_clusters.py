"""A mirror that starts with clusters that have just started, the source one with ZooKeeper, on a
machine that has no time for them, copies at once: again and again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.brokers import KAFKA_VERSION, GuardedProcess, KafkaCluster, kafka_runtime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OLD, STARTS, BURNERS = "2.8.2", 5, 2
PARTITIONS, RECORDS = 3, 200
# A trial once had copied nothing in this time.
COPY_S = 90.0
# As long as a user's: the first look at the source must find the topic.
PROPERTIES = {"refresh.topics.interval.seconds": "600"}
# Records of tests have timestamps of long ago. A broker that gets no time for 6 s would not start.
KEEP = {"log.retention.ms": "-1"}
BROKERS = {OLD: {**KEEP, "zookeeper.session.timeout.ms": "30000"}, KAFKA_VERSION: KEEP}


@pytest.fixture(autouse=True)
def burners(logs: Path) -> Iterator[None]:
    """Processes that only compute."""
    command = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for number in range(BURNERS):
            stack.enter_context(GuardedProcess(command, logs / f"burner-{number}.log"))
        yield


@pytest.mark.parametrize("start", range(1, STARTS + 1))
def test_a_mirror_of_clusters_that_just_started_copies(
    start: int, tmp_path: Path, logs: Path
) -> None:
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(
                KafkaCluster(
                    name=f"kafka-{version}",
                    properties=BROKERS[version],
                    kafka=kafka_runtime(version=version),
                    logs=logs,
                )
            )
            for version in (OLD, KAFKA_VERSION)
        )
        flow = MirroredFlow(source, target)
        topic = flow.topic(partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            produce(flow.source_servers, topic, numbered(RECORDS, partition=partition))
        log = logs / "mirror.log"
        with running(flow.properties(PROPERTIES), tmp_path, log) as mirror:
            flow.wait_records(topic, [RECORDS] * PARTITIONS, COPY_S)
            stop_cleanly(mirror, log)
        assert_equal_logs(flow, topic)
