"""The demo's Connect workers: their properties, processes and REST."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.errors import DeadlineExceeded
from deploy.brokers import GuardedProcess, ProcessFailed
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.brokers.process import complaints
from deploy.demo.mirror import (
    SOURCE,
    TARGET,
    installed_command,
    parse_lag,
    read_page,
)

__all__ = [
    "COMMAND",
    "HEARTBEAT",
    "MIRROR",
    "TASKS",
    "Worker",
    "Workers",
    "connector_configs",
    "worker_properties",
]

COMMAND = "connect-distributed"
MIRROR, HEARTBEAT = "mirror", "heartbeat"
TASKS = 3
"""Tasks of the mirror. The heartbeat connector has one task."""

_PACKAGE = "org.apache.kafka.connect.mirror"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_BITE_BYTES = 1024 * 1024
_CALL_S = 5.0
_CONFLICT = 409
_NOT_FOUND = 404


def worker_properties(target_servers: str, url: str) -> str:
    """Return the properties file, with comments for readers."""
    return f"""\
# The demo's configuration of {COMMAND}, in the format of Java's Kafka Connect.
bootstrap.servers = {target_servers}
group.id = demo
listeners = {url}

config.storage.topic = demo-configs
offset.storage.topic = demo-offsets
status.storage.topic = demo-status

key.converter = {_BYTES}
value.converter = {_BYTES}

# The cluster has a single broker.
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1

# Short timeouts, so that you can watch: a silent worker counts as dead after 6 seconds, and its
# tasks move 3 seconds later. The defaults are 10 seconds, and 5 minutes for the worker to return.
session.timeout.ms = 6000
heartbeat.interval.ms = 1000
scheduled.rebalance.max.delay.ms = 3000

# Records copied since the last commit are copied again after a kill.
offset.flush.interval.ms = 2000
"""


def connector_configs(source_servers: str, target_servers: str) -> Mapping[str, dict[str, str]]:
    """Return the configs by connector name, as sent to REST."""
    common = {
        "source.cluster.alias": SOURCE,
        "target.cluster.alias": TARGET,
        "source.cluster.bootstrap.servers": source_servers,
        "target.cluster.bootstrap.servers": target_servers,
    }
    return {
        MIRROR: {
            "connector.class": f"{_PACKAGE}.MirrorSourceConnector",
            "tasks.max": str(TASKS),
            **common,
            "topics": ".*",
            # Do not copy aborted transactions.
            "source.consumer.isolation.level": "read_committed",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset-map.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "5",
            # By Spark, whose JVM takes longer to start than the demo takes to be read.
            # Nobody looks back at a demo.
            "mirror.history.url": "none",
            # Small fetches, so that copying the backlog takes long enough to watch.
            "mirror.copy.buffer.bytes": str(_BITE_BYTES),
        },
        HEARTBEAT: {
            "connector.class": f"{_PACKAGE}.MirrorHeartbeatConnector",
            "tasks.max": "1",
            **common,
            "heartbeats.topic.replication.factor": "1",
        },
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """A REST response. `body`: parsed JSON; None if there is none."""

    status: int
    body: Any


class Worker:
    """One `connect-distributed`. Its port stays reserved over restarts. Its owner closes it."""

    def __init__(self, number: int, target_servers: str, directory: Path) -> None:
        self._command = installed_command(COMMAND)
        self.number = number
        self._lease = PortLease(cache_directory() / "ports")
        self.worker_id = f"{LOOPBACK}:{self._lease.port}"
        self.url = f"http://{self.worker_id}"
        self.properties = directory / f"worker-{number}.properties"
        self.properties.write_text(worker_properties(target_servers, self.url))
        self._log = directory / f"worker-{number}.log"
        self._process: GuardedProcess | None = None
        self._killed = False

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    def start(self) -> None:
        if self._process is not None:
            self._process.close()
        self._killed = False
        self._process = GuardedProcess([str(self._command), str(self.properties)], self._log)

    def check(self) -> None:
        """Raise `ProcessFailed` with the end of its log if it has ended without being killed."""
        status = None if self._process is None or self._killed else self._process.poll()
        if status is not None:
            raise ProcessFailed(
                f"{COMMAND} {self.number} exited with status {status}; its log {self._log} "
                f"says:\n{complaints(self._log)}"
            )

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self._process is not None
        self._killed = True
        self._process.kill()

    def request_stop(self) -> None:
        """Send SIGTERM, so that it stores its final offsets. A second one would end it at once."""
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> int:
        """Return the exit status of a worker that was asked to stop. Kills it if that takes too
        long."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except DeadlineExceeded:
            return self._process.kill()

    def close(self) -> None:
        with closing(self._lease):
            if self._process is not None:
                self._process.close()

    def ask(self, method: str, path: str, body: object = None) -> Answer | None:
        """Send one request. Returns None if the worker does not respond."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            try:
                with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
                    return _answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    return _answer(error.code, error.read())
        except (OSError, ValueError):
            return None

    def is_ready(self) -> bool:
        """Whether the worker has joined its group."""
        answer = self.ask("GET", "/health")
        return answer is not None and answer.status == 200

    def leads(self) -> bool:
        """Whether the worker leads its group.

        Sends a request about a connector that does not exist and forbids forwarding; only a leader
        answers that itself.
        """
        path = "/connectors/nobody/restart?includeTasks=true&onlyFailed=true&forward=false"
        answer = self.ask("POST", path)
        return answer is not None and answer.status == _NOT_FOUND


class Workers:
    """All workers. Used by one thread."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.all = list(workers)

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.all if worker.running]

    def check(self) -> None:
        for worker in self.all:
            worker.check()

    def ready(self) -> bool:
        """Whether all running workers have joined the group."""
        return all(worker.is_ready() for worker in self.running)

    def leader(self) -> Worker | None:
        """Return the group's leader; None if there is none."""
        return next((worker for worker in self.running if worker.leads()), None)

    def create(self, name: str, config: Mapping[str, str]) -> bool:
        """Create a connector through the last worker, which forwards to the leader. Returns False
        during a rebalance. Raises `ProcessFailed` if it is rejected."""
        answer = self.running[-1].ask("POST", "/connectors", {"name": name, "config": config})
        if answer is None or answer.status == _CONFLICT:
            return False
        if answer.status >= 300:
            raise ProcessFailed(f"Connector {name} was rejected: {answer.status} {answer.body}")
        return True

    def placed(self) -> dict[str, str]:
        """Return the worker ID of every RUNNING connector ("mirror") and task ("mirror-0"). Empty
        if no worker responds."""
        answer = self.running[0].ask("GET", "/connectors?expand=status")
        if answer is None or answer.status != 200:
            return {}
        placed = {}
        for name, found in answer.body.items():
            status = found["status"]
            each = [(name, status["connector"])]
            each += [(f"{name}-{task['id']}", task) for task in status["tasks"]]
            placed.update(
                {what: one["worker_id"] for what, one in each if one["state"] == "RUNNING"}
            )
        return placed

    def complete(self, placed: Mapping[str, str], connectors: Collection[str]) -> bool:
        """Whether these connectors and all their tasks run, on live workers."""
        tasks = {MIRROR: TASKS, HEARTBEAT: 1}
        wanted = {f"{name}-{number}" for name in connectors for number in range(tasks[name])}
        alive = {worker.worker_id for worker in self.running}
        return placed.keys() == wanted.union(connectors) and alive.issuperset(placed.values())

    def reported_lag(self) -> dict[tuple[str, int], int]:
        """Return the lag in records by (source topic, partition), from the workers' /metrics
        pages."""
        lags: dict[tuple[str, int], int] = {}
        for worker in self.running:
            lags.update(parse_lag(read_page(f"{worker.url}/metrics?family=A")))
        return lags


def _answer(status: int, content: bytes) -> Answer:
    return Answer(status, json.loads(content) if content else None)
