"""A process of Java's MirrorMaker 2 and one of ours share a flow, whichever leads its group."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.error import URLError

import pytest

from deploy.brokers import GuardedProcess, JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.records.producing import numbered, produce
from tests.support.served import health_of
from tests.support.waiting import wait_until

PARTITIONS = 4
SOURCE = "MirrorSourceConnector"


class Group:
    """Both processes: each has the internal REST on a port of its own."""

    def __init__(
        self, kafka: KafkaRuntime, flow: MirroredFlow, directory: Path, logs: Path, stack: ExitStack
    ) -> None:
        self._kafka, self._flow, self._directory, self._logs = kafka, flow, directory, logs
        self._stack = stack
        self.rest = {name: self._address() for name in ("java", "ours")}
        self.page = f"http://{self._address()}"
        self.log = logs / "ours.log"

    def _address(self) -> str:
        lease = PortLease(cache_directory() / "ports")
        self._stack.callback(lease.close)
        return f"{LOOPBACK}:{lease.port}"

    def _properties(self, name: str) -> dict[str, str]:
        return self._flow.properties(
            {
                "tasks.max": str(PARTITIONS),
                "dedicated.mode.enable.internal.rest": "true",
                "listeners": f"http://{self.rest[name]}",
                "metrics.listener": self.page,
                "B.scheduled.rebalance.max.delay.ms": "500",
            }
        )

    def start(self, name: str) -> GuardedProcess:
        if name == "ours":
            props = self._properties(name)
            return self._stack.enter_context(running(props, self._directory / name, self.log))
        mirror = java_mirror_maker(
            self._kafka,
            self._properties(name),
            self._directory / name,
            self._logs / "java.log",
            jvm=JvmOptions(heap="512m"),
        )
        return self._stack.enter_context(mirror)

    def works_of(self, workers: set[str]) -> bool:
        """Whether all tasks run, and on just these workers."""
        try:
            connectors = health_of(self.page)["connectors"]
        except URLError:
            return False  # ours starts
        for connector in connectors:
            if connector["name"] == SOURCE:
                tasks = [task for task in connector["tasks"] if task["state"] == "RUNNING"]
                owners = {task["worker_id"].split("/")[0] for task in tasks}
                return len(tasks) == PARTITIONS and owners == {self.rest[w] for w in workers}
        return False


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(("java", "ours"), id="java-leads"),
        pytest.param(("ours", "java"), id="ours-leads", marks=pytest.mark.slow),
    ],
)
def test_java_and_ours_share_a_flow(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    order: tuple[str, str],
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic("t", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(flow.source_servers, topic, numbered(100, partition=partition))
    with ExitStack() as stack:
        group = Group(kafka, flow, tmp_path, logs, stack)
        processes = {order[0]: group.start(order[0])}
        flow.wait_records(topic, [100] * PARTITIONS, 90)
        processes[order[1]] = group.start(order[1])
        wait_until(lambda: group.works_of({"java", "ours"}), 90, "both share the tasks")
        for partition in range(PARTITIONS):
            produce(flow.source_servers, topic, numbered(100, start=100, partition=partition))
        flow.wait_records(topic, [200] * PARTITIONS, 90)
        late = flow.topic("late")
        produce(flow.source_servers, late, numbered(10))
        flow.wait_records(late, [10], 90)
        assert processes["java"].stop(60) == 128 + 15
        wait_until(lambda: group.works_of({"ours"}), 90, "ours has all of them")
        produce(flow.source_servers, topic, numbered(50, start=200))
        flow.wait_records(topic, [250, 200, 200, 200], 60)
        assert "were not committed" not in group.log.read_text()
        stop_cleanly(processes["ours"], group.log)
    for each in (topic, late):
        assert_equal_logs(flow, each)
