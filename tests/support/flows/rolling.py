"""Processes of a flow that are replaced one after another while records come in: what runs beside
the source connector, and what must hold at the end."""

from __future__ import annotations

from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs
from tests.support.flows.worker_flow import WorkerFlow
from tests.support.records.groups import commit, committed
from tests.support.records.reading import read_partition
from tests.support.records.topics import unique
from tests.support.waiting import wait_until

__all__ = [
    "PASSED_ON",
    "assert_copied_once",
    "assert_group_follows",
    "create_others",
    "wait_for_more",
]

PASSED_ON = 500
"""Records that must arrive between one replacement and the next."""


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
    flow.wait_records(topic, [counts[number] for number in range(len(counts))])
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

    last = {
        number: read_partition(flow.target_servers, remote, number)[-1].offset for number in counts
    }

    def nothing_left() -> bool:
        # The first translation may come before the newest part of the map, and be of an earlier
        # record.
        found = committed(flow.target_servers, group)
        return all(found.get((remote, number), 0) > offset for number, offset in last.items())

    wait_until(nothing_left, 60.0, f"{group} has read everything on the target")
