"""A worker's mirror task that writes exactly once: in the test's process, or as one to be killed.

As a program, arguments: a JSON object with what `OnceMirror` takes. SIGTERM ends it. Nobody fences
for it but its own claim of the transactional id.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId, State
from connect.runtime.tasks.host import TaskHost
from connect.runtime.worker import Worker
from connectors.mirror.plugins import register
from connectors.mirror.source.task import MirrorSourceTask
from deploy.brokers import GuardedProcess
from tests.support.waiting import wait_until

__all__ = ["OnceMirror", "OnceTask", "mirror_process"]

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_TASK = InstanceId("mirror", 0)
_TIMEOUT_S = 60.0


@dataclass
class OnceMirror:
    """What one task copies, and how. `options` are the connector's."""

    source: str
    target: str
    group: str
    partitions: list[str]
    """`<topic>-<partition>`."""
    options: dict[str, str] = field(default_factory=dict)
    offset_partitions: int = 3
    replication: int = 1

    @property
    def offsets_topic(self) -> str:
        return f"{self.group}-offsets"

    @property
    def transactional_id(self) -> str:
        return task_transactional_id(self.group, _TASK)

    def worker(self) -> Worker:
        plugins = PluginRegistry(discover=False)
        register(plugins)
        properties = {
            "bootstrap.servers": self.target,
            "group.id": self.group,
            "offset.storage.topic": self.offsets_topic,
            "offset.storage.partitions": str(self.offset_partitions),
            "offset.storage.replication.factor": str(self.replication),
            "key.converter": _BYTES,
            "value.converter": _BYTES,
        }
        worker = Worker(
            WorkerConfig.from_properties(properties),
            plugins,
            MetricRegistry(),
            worker_id="w1",
            exactly_once=True,
        )
        worker.start(Deadline(_TIMEOUT_S))
        return worker

    def config(self) -> dict[str, str]:
        return {
            "name": _TASK.connector,
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": self.source,
            "target.cluster.bootstrap.servers": self.target,
            "source.consumer.isolation.level": "read_committed",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **self.options,
            "task.assigned.partitions": ",".join(self.partitions),
            "task.index": "0",
        }

    def run(
        self,
        worker: Worker,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> OnceTask:
        worker.statuses.forget(_TASK)
        plan = ExactlyOncePlan(self.transactional_id, before, after)
        config = self.config()
        host = worker.make_task(
            _TASK, MirrorSourceTask, config, config, paused=False, exactly_once=plan
        )
        host.start()
        return OnceTask(worker, host)


@dataclass
class OnceTask:
    """One run of the task."""

    worker: Worker
    host: TaskHost

    def stop(self) -> None:
        deadline = Deadline(20)
        self.host.request_stop(deadline)
        assert self.host.join(deadline)

    def failure(self) -> str | None:
        status = self.worker.statuses.get(_TASK)
        return status.trace if status is not None and status.state is State.FAILED else None

    def fails(self) -> str:
        """Wait for the failure, and for the end of the run: a next one is not to meet it."""
        trace = wait_until(self.failure, _TIMEOUT_S, "failure of the task")
        assert trace is not None
        assert self.host.join(Deadline(_TIMEOUT_S))
        return trace


def mirror_process(mirror: OnceMirror, log: Path) -> GuardedProcess:
    """The task in a process of its own, to be started with `with`."""
    arguments = json.dumps(asdict(mirror))
    command = [sys.executable, "-m", "tests.support.flows.exactly_once_mirror", arguments]
    return GuardedProcess(command, log)


def main(arguments: Mapping[str, object]) -> None:
    mirror = OnceMirror(**arguments)  # type: ignore[arg-type]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    worker = mirror.worker()
    task = mirror.run(worker)
    signal.sigwait({signal.SIGTERM})
    task.stop()
    worker.stop(Deadline(5))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
