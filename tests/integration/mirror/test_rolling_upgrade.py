"""A flow under load is upgraded and rolled back: its processes are replaced one after another, the
previous version's by this one's and back. No record is lost, none is there twice, nothing fails."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.support.deployment.installed import version_before
from tests.support.flows.mirrored import MirroredFlow, stop_cleanly
from tests.support.flows.rolling import (
    PASSED_ON,
    assert_copied_once,
    assert_group_follows,
    create_others,
    wait_for_more,
)
from tests.support.flows.worker_flow import worker_flow
from tests.support.properties_files import properties_text
from tests.support.records.streams import NumberedStream
from tests.support.records.topics import end_offsets, has_topic
from tests.support.served import health_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PARTITIONS, TASKS, RATE = 4, 2, 2_000
SETTLE_S = 180.0
CONNECTORS = {"MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"}
FAILED = re.compile(r"^.*(?:Traceback|will be copied again|not written before).*$", re.M)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of the previous version."""
    return version_before(tmp_path_factory.mktemp("before"))


class Process:
    """One place for a process of the flow, whose version changes."""

    def __init__(self, number: int, properties: Mapping[str, str], tmp_path: Path, logs: Path):
        self._number, self._logs, self._starts = number, logs, 0
        self._listeners = 2 if "listeners" in properties else 1
        self._file = tmp_path / f"mirror-{number}.properties"
        self._file.write_text(properties_text(properties))
        self._process: GuardedProcess | None = None
        self._log = logs

    def start(self, commands: Path) -> None:
        self._starts += 1
        self._log = self._logs / f"mirror-{self._number}-{self._starts}.log"
        command = [str(commands / "connect-mirror-maker"), str(self._file)]
        self._process = GuardedProcess(command, self._log)

    def stop(self) -> None:
        assert self._process is not None
        stop_cleanly(self._process, self._log)
        self.close()
        assert FAILED.findall(self._log.read_text()) == []

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    def health(self) -> dict[str, Any] | None:
        """None until it serves it, in time. The internal REST listens before."""
        assert self._process is not None
        assert self._process.running(), self._log.read_text()
        urls = re.findall(r"listening on (\S+)", self._log.read_text())
        if len(urls) < self._listeners:
            return None
        try:
            return health_of(urls[self._listeners - 1])
        except OSError:
            return None


def share(processes: Sequence[Process], name: str) -> bool:
    """Whether each process says that all is well, and that all of them have tasks of a flow."""
    for process in processes:
        health = process.health()
        if health is None or health["status"] != "healthy":
            return False
        found = [each for each in health["connectors"] if each["flow"] == name]
        connectors = {each["name"]: each for each in found}
        tasks = connectors.get("MirrorSourceConnector", {"tasks": []})["tasks"]
        owners = [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]
        if connectors.keys() < CONNECTORS or len(owners) != PARTITIONS:
            return False
        if len(set(owners)) != len(processes):
            return False
    return True


def arrived(flow: MirroredFlow, topic: str) -> int:
    remote = flow.remote(topic)
    if not has_topic(flow.target_servers, remote):
        return 0
    return sum(end_offsets(flow.target_servers, remote).values())


@pytest.mark.parametrize("once", ["disabled", "enabled"])
def test_processes_of_a_flow_are_upgraded_and_rolled_back(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    before: Path,
    once: str,
) -> None:
    now = Path(sys.executable).parent
    flow = MirroredFlow(source_cluster, target_cluster)
    topic, name = flow.topic(partitions=PARTITIONS), f"{flow.a}->{flow.b}"
    extra = {
        "groups": f"{flow.prefix}.*",
        # So many that each process has some, though all connectors are dealt out together.
        "tasks.max": str(PARTITIONS),
        "emit.heartbeats.enabled": "true",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "B.scheduled.rebalance.max.delay.ms": "500",
        # The flow back emits heartbeats, and a process that stops may have their connector.
        "A.scheduled.rebalance.max.delay.ms": "500",
        "B.exactly.once.source.support": once,
        "metrics.listener": f"http://{LOOPBACK}:0",
    }
    if once == "enabled":
        extra["dedicated.mode.enable.internal.rest"] = "true"
        extra["listeners"] = f"http://{LOOPBACK}:0"

    def wait_for_records() -> None:
        had = arrived(flow, topic)
        wait_until(lambda: arrived(flow, topic) >= had + PASSED_ON, SETTLE_S, "copying to go on")

    with ExitStack() as stack:
        processes = [Process(n, flow.properties(extra), tmp_path, logs) for n in (1, 2)]
        for process in processes:
            stack.callback(process.close)
            process.start(before)
        with NumberedStream(flow.source_servers, topic, PARTITIONS, rate=RATE) as stream:
            wait_until(lambda: share(processes, name), SETTLE_S, "both to have tasks")
            for version in (now, before, now):
                for process in processes:
                    wait_for_records()
                    process.stop()
                    process.start(version)
                    wait_until(lambda: share(processes, name), SETTLE_S, "both to have tasks again")
            wait_for_records()
        assert_copied_once(flow, topic, stream.counts)
        assert_group_follows(flow, topic, stream.counts)
        for process in processes:
            process.stop()


@pytest.mark.parametrize("once", ["disabled", "enabled"])
def test_workers_of_a_group_are_upgraded_and_rolled_back(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    before: Path,
    once: str,
) -> None:
    old, new = (
        [str(each / "connect-distributed")] for each in (before, Path(sys.executable).parent)
    )
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic(partitions=PARTITIONS)
    worker = {"scheduled.rebalance.max.delay.ms": "0"}
    with worker_flow(flow, logs, tmp_path, once, {}, worker, old) as running:
        create_others(running)
        running.group.until_running(running.name, TASKS)
        with NumberedStream(flow.source_servers, topic, PARTITIONS, rate=RATE) as stream:
            for version in (new, old, new):
                for each in running.group.workers:
                    wait_for_more(running, topic)
                    each.stop()
                    each.command = version
                    each.start().await_ready()
                    running.group.until_running(running.name, TASKS)
            wait_for_more(running, topic)
        assert_copied_once(flow, topic, stream.counts)
        assert_group_follows(flow, topic, stream.counts)
        assert [
            f for log in logs.glob("worker-*.log") for f in FAILED.findall(log.read_text())
        ] == []
