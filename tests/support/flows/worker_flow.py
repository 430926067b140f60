"""A flow that two workers of a Connect cluster copy, and what they say of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException

from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import end_offsets, has_topic, unique
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

__all__ = ["WorkerFlow", "worker_flow"]


class WorkerFlow:
    """The flow's source connector is created with it."""

    def __init__(
        self, flow: MirroredFlow, group: Group, logs: Path, config: dict[str, str]
    ) -> None:
        self.flow, self.group, self._logs = flow, group, logs
        self.name = f"{flow.prefix}-source"
        self.group.create(self.name, config)
        self.config = config

    def count(self, topic: str) -> int:
        """Records on the target."""
        remote = self.flow.remote(topic)
        servers = self.flow.target_servers
        if not has_topic(servers, remote):
            return 0
        try:
            return sum(end_offsets(servers, remote).values())
        except KafkaException:
            return 0  # a partition that was just created has no leader yet

    def speed(self, topic: str, seconds: float) -> float:
        """Records a second that arrive."""
        began, before = time.monotonic(), self.count(topic)
        while time.monotonic() - began < seconds:
            time.sleep(0.05)
        return (self.count(topic) - before) / (time.monotonic() - began)

    def starts(self) -> tuple[int, int]:
        """How often tasks were started, and were given partitions."""
        return (
            self.told(rf"Starting .*{re.escape(self.name)}-\d"),
            self.told(r"task \d: \d+ partitions, \d+ of them new"),
        )

    def told(self, pattern: str) -> int:
        """How often a line of any worker's log says so."""
        logs = (path.read_text() for path in self._logs.glob("worker-*.log"))
        return sum(len(re.findall(pattern, text)) for text in logs)

    def dealt_out(self) -> list[set[str]]:
        """The partitions of each task, by their names, as they are configured now."""
        tasks = self.group.call("GET", f"/connectors/{self.name}/tasks").json()
        return [set(task["config"]["task.assigned.partitions"].split(",")) for task in tasks]


@contextmanager
def worker_flow(
    flow: MirroredFlow,
    logs: Path,
    directory: Path,
    once: str,
    extra: Mapping[str, str],
    worker: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
) -> Iterator[WorkerFlow]:
    """Two workers and two tasks. `once`: the workers' exactly.once.source.support; `extra` goes
    into the connector's config, `worker` into the workers' properties. `command`: as of
    `worker_group`."""
    properties = {
        **worker_properties(flow.target_servers, unique("flow")),
        "exactly.once.source.support": once,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        **(worker or {}),
    }
    config = {
        "connector.class": "MirrorSourceConnector",
        "tasks.max": "2",
        "source.cluster.alias": flow.a,
        "target.cluster.alias": flow.b,
        "source.cluster.bootstrap.servers": flow.source_servers,
        "target.cluster.bootstrap.servers": flow.target_servers,
        "source.consumer.isolation.level": "read_committed",
        "topics": f"{flow.prefix}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",  # others may have made that topic
        "mirror.history.url": "none",
        **extra,
    }
    with worker_group(2, properties, directory, logs, command=command) as group:
        yield WorkerFlow(flow, group, logs, config)
