"""A distributed worker of Java's Kafka Connect, and its REST."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.brokers import GuardedProcess, JvmOptions, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.properties_files import properties_text
from tests.support.waiting import wait_until
from tests.support.workers.java import SERVICES, java_process

__all__ = ["JavaWorker", "java_worker", "worker_properties"]

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_START_S = 120.0
_CALL_S = 30.0


def worker_properties(
    servers: str, name: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Properties of a distributed worker of group `name`, whose topics are named after it, with
    single replicas and short intervals; `extra` wins."""
    return {
        "bootstrap.servers": servers,
        "group.id": name,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        # Brokers spend more on the default of 25 than on all else of a short test.
        "offset.storage.partitions": "5",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "offset.flush.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        "file.connectors.root": "/",
        **(extra or {}),
    }


class JavaWorker:
    """A running worker."""

    def __init__(self, url: str, process: GuardedProcess) -> None:
        self.url = url
        self.process = process

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and parsed body of one request; None for an empty body."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, content = error.code, error.read()
        return status, json.loads(content) if content else None

    def get(self, path: str) -> Any:
        """The body of a GET that succeeds, tried again while the group rebalances: some requests
        are answered with 500 then."""

        def rebalances(status: int, body: Any) -> bool:
            return status == 500 and "a rebalance is expected" in str(body)

        status, body = self._settled("GET", path, None, rebalances)
        assert status == 200, f"GET {path}: {status} {body}"
        return body

    def put_through(self, method: str, path: str, body: object = None) -> Any:
        """The body of a request that succeeds, tried again while the group rebalances."""
        status, answer = self._settled(method, path, body, lambda status, _: status == 409)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def _settled(
        self, method: str, path: str, body: object, rebalances: Callable[[int, Any], bool]
    ) -> tuple[int, Any]:
        """The answer of a request, once it is no longer one that `rebalances` knows."""

        def answered() -> tuple[int, Any] | None:
            answer = self.call(method, path, body)
            return None if rebalances(*answer) else answer

        found = wait_until(answered, _CALL_S, f"{method} {path}")
        assert found is not None
        return found

    def _ready(self) -> bool:
        assert self.process.running(), "the worker has ended; see its log"
        try:
            return self.call("GET", "/health")[0] == 200
        except (OSError, ValueError):
            return False

    def wait_until_ready(self) -> None:
        wait_until(self._ready, _START_S, "the Java worker to be ready")


@contextmanager
def java_worker(
    kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> Iterator[JavaWorker]:
    """A worker with these properties and a port of its own, once it has joined its group."""
    lease = PortLease(cache_directory() / "ports")
    try:
        url = f"http://{LOOPBACK}:{lease.port}"
        path = directory / f"worker-{lease.port}.properties"
        lines = {**SERVICES, **properties, "listeners": url}
        path.write_text(properties_text(lines))
        jvm = JvmOptions(heap="512m")
        with java_process(kafka, _MAIN, [str(path)], log, jvm=jvm) as process:
            worker = JavaWorker(url, process)
            worker.wait_until_ready()
            yield worker
            process.stop(30.0)
    finally:
        lease.close()
