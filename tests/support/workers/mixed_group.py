"""One Connect group of a worker of Java's and a worker of ours, each on a port of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from deploy.brokers import KafkaRuntime
from tests.support.records.topics import unique
from tests.support.rest import Answer, call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import GroupWorker
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties

__all__ = ["MixedGroup", "heartbeat_config", "mirror_config"]

_SETTLE_S = 60.0
_QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}


def heartbeat_config(servers: str, topic: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "tasks.max": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
        "heartbeats.topic": topic,
    }


def mirror_config(servers: str, topic: str, tasks: int) -> dict[str, str]:
    """Copies `topic` to `here.<topic>` of the same cluster."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": str(tasks),
        "topics": topic,
        "source.cluster.alias": "here",
        "target.cluster.alias": "there",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "replication.factor": "1",
        # Other tests' heartbeats are on the same cluster.
        "heartbeats.replication.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }


class MixedGroup:
    """Its workers are called "java" and "ours"; none runs before `start`."""

    def __init__(
        self,
        kafka: KafkaRuntime,
        servers: str,
        directory: Path,
        logs: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = servers
        self._kafka = kafka
        self._directory = directory
        self._logs = logs
        self._properties = worker_properties(
            servers, unique("mixed"), {**_QUICK, **(properties or {})}
        )
        self._ours: GroupWorker | None = None
        self._java: JavaWorker | None = None
        self._java_stack = ExitStack()
        self._starts = 0
        self._running: list[str] = []
        """In the order in which they joined: the first one leads."""

    def __enter__(self) -> MixedGroup:
        self._ours = GroupWorker(1, self._properties, self._directory, self._logs)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._java_stack.close()
        finally:
            assert self._ours is not None
            self._ours.close()

    def start(self, side: str) -> None:
        """Returns when it is in the group."""
        if side == "ours":
            assert self._ours is not None
            self._ours.start().await_ready()
        else:
            self._starts += 1
            log = self._logs / f"java-{self._starts}.log"
            worker = java_worker(self._kafka, self._properties, self._directory, log)
            self._java = self._java_stack.enter_context(worker)
        self._running.append(side)

    def stop(self, side: str) -> None:
        self._running.remove(side)
        if side == "ours":
            assert self._ours is not None
            self._ours.stop()
        else:
            self._java_stack.close()

    def kill(self, side: str) -> None:
        """As kill -9."""
        self._running.remove(side)
        if side == "ours":
            assert self._ours is not None
            self._ours.kill()
        else:
            assert self._java is not None
            self._java.process.kill()

    def lead(self, side: str) -> None:
        """Have this one lead: the coordinator chooses whoever has been there longest."""
        if self._running[0] != side:
            assert self._running == ["ours", "java"], "a start of Java takes too long"
            self.stop("ours")
            self.start("ours")
        wait_until(lambda: self.is_led_by(side), _SETTLE_S, f"{side} to lead")

    def is_led_by(self, side: str) -> bool:
        """Whether our worker says so."""
        shown = call(self.url("ours"), "GET", "/metrics?family=A,B,C").body.decode()
        lines = [line for line in shown.splitlines() if "leader_name" in line]
        return any(f"{self.url(side)}/" in line for line in lines)

    def url(self, side: str) -> str:
        worker = self._ours if side == "ours" else self._java
        assert worker is not None
        return worker.url

    def worker_id(self, side: str) -> str:
        return self.url(side).removeprefix("http://")

    @property
    def worker_ids(self) -> set[str]:
        """Of those that run."""
        return {self.worker_id(side) for side in self._running}

    def accepted(self, side: str, method: str, path: str, body: object = None) -> Answer:
        """The answer to a request that succeeds, made again while the group rebalances."""

        def ask() -> Answer | None:
            answer = call(self.url(side), method, path, body)
            rebalance = answer.status in (409, 500) and b"momentarily" in answer.body
            return None if rebalance else answer

        found = wait_until(ask, _SETTLE_S, f"{method} {path} at {side}")
        assert found is not None
        assert found.status < 300, f"{method} {path} at {side}: {found.status} {found.body!r}"
        return found

    def create(
        self, name: str, config: Mapping[str, str], initial_state: str | None = None
    ) -> None:
        body: dict[str, object] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        self.accepted(self._running[-1], "POST", "/connectors", body)

    def get(self, side: str, path: str) -> Any:
        answer = call(self.url(side), "GET", path)
        assert answer.status == 200, f"GET {path} at {side}: {answer.status} {answer.body!r}"
        return answer.json()

    def until(self, side: str, path: str, condition: Callable[[Any], object]) -> Any:
        """The answer to a GET, once it is like this."""

        def check() -> list[Any]:
            answer = call(self.url(side), "GET", path)
            found = [answer.json()] if answer.status == 200 else []
            return [each for each in found if condition(each)]

        return wait_until(check, _SETTLE_S, f"GET {path} at {side}")[0]

    def status(self, side: str, name: str) -> Any:
        """None while there is none."""
        answer = call(self.url(side), "GET", f"/connectors/{name}/status")
        return answer.json() if answer.status == 200 else None

    def until_status(self, side: str, name: str, state: str | None, tasks: int | None = 0) -> None:
        """The connector, and so many tasks (None: any number), are in this state; None: gone."""

        def check() -> bool:
            found = self.status(side, name)
            if found is None or state is None:
                return found is state
            states = [task["state"] for task in found["tasks"]]
            right = found["connector"]["state"] == state and set(states) <= {state}
            return right and (tasks is None or len(states) == tasks)

        wait_until(check, _SETTLE_S, f"{name} to be {state} with {tasks} tasks at {side}")

    def until_running(self, name: str, tasks: int) -> None:
        """All workers say that the connector and so many tasks run on workers that are alive."""

        def check(side: str) -> bool:
            found = self.status(side, name)
            if found is None or len(found["tasks"]) != tasks:
                return False
            parts = [found["connector"], *found["tasks"]]
            return all(
                part["state"] == "RUNNING" and part["worker_id"] in self.worker_ids
                for part in parts
            )

        for side in list(self._running):
            wait_until(
                lambda side=side: check(side),  # type: ignore[misc]
                _SETTLE_S,
                f"{name} to run with {tasks} tasks, says {side}",
            )

    def until_shared(self, name: str, tasks: int) -> None:
        """As `until_running`, with as many tasks on each worker."""
        share = tasks // len(self._running)

        def check() -> bool:
            found = self.status(self._running[0], name)
            workers = [] if found is None else [task["worker_id"] for task in found["tasks"]]
            return all(workers.count(worker) == share for worker in self.worker_ids)

        wait_until(check, _SETTLE_S, f"{name}: {share} tasks on each worker")
        self.until_running(name, tasks)

    def clear(self) -> None:
        """Delete all connectors."""
        side = self._running[0]
        for name in self.get(side, "/connectors"):
            self.accepted(side, "DELETE", f"/connectors/{name}")
        for side in self._running:
            self.until(side, "/connectors", lambda found: found == [])
