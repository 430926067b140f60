"""The workers of a group are restarted one after another, as for an upgrade, while records come in:
the mirror's connectors lose nothing and double nothing, and groups go on at the right record."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.groups import commit, committed
from tests.support.mirrored import MirroredFlow, assert_equal_logs
from tests.support.reading import read_partition
from tests.support.streams import NumberedStream
from tests.support.topics import unique
from tests.support.waiting import wait_until
from tests.support.worker_flow import WorkerFlow, worker_flow

PARTITIONS, TASKS = 4, 2
ROUNDS = 2
PASSED_ON = 500
"""Records that must arrive between one restart and the next."""
# Longer than a worker is away, and shorter: it gets its tasks back, or they move twice.
STAYS, MOVES = "60000", "0"


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [STAYS, MOVES], ids=["tasks-wait", "tasks-move"])
@pytest.mark.parametrize("once", ["disabled", "enabled"])
def test_workers_are_restarted_one_after_another_under_load(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: str,
    delay_ms: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=PARTITIONS)
    worker = {"scheduled.rebalance.max.delay.ms": delay_ms}
    with worker_flow(flow, logs, tmp_path, once, {}, worker) as running:
        create_others(running)
        running.group.until_running(running.name, TASKS)
        with NumberedStream(flow.source_servers, topic, PARTITIONS, rate=2_000) as stream:
            for _ in range(ROUNDS):
                for each in running.group.workers:
                    wait_for_more(running, topic)
                    each.stop()
                    if delay_ms == MOVES:
                        # The other worker has everything, and copies.
                        running.group.until_running(running.name, TASKS)
                        wait_for_more(running, topic)
                    each.start().await_ready()
                    running.group.until_running(running.name, TASKS)
            wait_for_more(running, topic)
        assert_copied_once(flow, topic, stream.counts)
        assert_group_follows(flow, topic, stream.counts)


def create_others(running: WorkerFlow) -> None:
    """The flow's checkpoint and heartbeat connectors, which are restarted as well."""
    checkpoints = {
        **running.config,
        "connector.class": "MirrorCheckpointConnector",
        "tasks.max": "1",
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "groups": f"{running.flow.prefix}.*",
    }
    running.group.create(f"{running.flow.prefix}-checkpoints", checkpoints)
    heartbeats = {
        **running.config,
        "connector.class": "MirrorHeartbeatConnector",
        "tasks.max": "1",
        "heartbeats.topic.replication.factor": "1",
    }
    running.group.create(f"{running.flow.prefix}-heartbeats", heartbeats)


def wait_for_more(running: WorkerFlow, topic: str) -> None:
    had = running.count(topic)
    wait_until(lambda: running.count(topic) >= had + PASSED_ON, 60.0, "copying to go on")


def assert_copied_once(flow: MirroredFlow, topic: str, counts: dict[int, int]) -> None:
    """A worker that is stopped stores all that it copied, so that also without exactly-once no
    record is there twice."""
    flow.wait_records(topic, [counts[number] for number in range(PARTITIONS)])
    remote = flow.remote(topic)

    def arrived() -> bool:
        return all(
            len(read_partition(flow.target_servers, remote, number)) >= count
            for number, count in counts.items()
        )

    wait_until(arrived, 60.0, "all records to be readable")
    assert_equal_logs(flow, topic)


def assert_group_follows(flow: MirroredFlow, topic: str, counts: dict[int, int]) -> None:
    """A group that has read everything on the source finds nothing left to read on the target."""
    group = unique(flow.prefix)
    commit(flow.source_servers, group, {(topic, number): n for number, n in counts.items()})
    remote = flow.remote(topic)

    def translated() -> dict[tuple[str, int], int] | None:
        found = committed(flow.target_servers, group)
        return found if len(found) == PARTITIONS else None

    offsets = wait_until(translated, 60.0, f"offsets of {group} on the target")
    assert offsets is not None
    left = [
        record.value
        for number in counts
        for record in read_partition(flow.target_servers, remote, number)
        if record.offset >= offsets[remote, number]
    ]
    assert left == []
