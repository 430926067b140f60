"""kill -9 at full rate: records that are on the target already are not copied again."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.killed_mirrors import caught_up, check
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.producing import numbered, produce
from tests.support.topics import end_offset
from tests.support.waiting import wait_until

PARTITIONS = 2


def wait_copied(flow: MirroredFlow, topic: str, records: int) -> None:
    """Until so many records of the first partition are on the target."""
    wait_until(
        lambda: end_offset(flow.target_servers, flow.remote(topic)) >= records, 60.0, "copying"
    )


@pytest.mark.parametrize(
    ("records", "kills"),
    [(200_000, 1), pytest.param(600_000, 3, marks=pytest.mark.slow)],
)
def test_a_kill_at_full_rate_doubles_nothing(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    records: int,
    kills: int,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topic = flow.topic("busy", partitions=PARTITIONS)
    for number in range(PARTITIONS):
        batch = numbered(records // PARTITIONS, size=200, partition=number)
        produce(flow.source_servers, topic, batch)
    # No offset is stored before a kill.
    unstored = flow.properties({"B.offset.flush.interval.ms": "60000"})
    for kill in range(kills):
        with running(unstored, tmp_path, log) as mirror:
            flow.wait_created(topic, 60.0)
            wait_copied(flow, topic, kill * records // kills // PARTITIONS + 1)
            mirror.kill()
    with running(flow.properties(), tmp_path, log) as mirror:
        caught_up(flow, {topic: PARTITIONS}, 120.0)
        stop_cleanly(mirror, log)
    assert check(flow, {topic: PARTITIONS}, 0) == 0
    assert "were on the target already" in log.read_text()
