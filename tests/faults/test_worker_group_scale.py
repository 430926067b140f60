"""Many connectors on three workers, created, reconfigured and deleted through REST.

Balanced within one of each other after each change, quick to answer, and nothing left at the end:
threads of producers and tasks go when connectors do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.brokers import KafkaCluster
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.ledgers import PLUGINS, staged

TASKS_EACH = 5
# Far more than an answer takes, also on a busy machine, and less than a request waits for a herder
# that is stuck.
IDLE_ANSWER_S = 30.0
_SETTLE_S = 120.0
_CONFLICT = 409
# Threads of a worker without connectors, give or take those of requests that have just ended.
_THREADS_SLACK = 20


@pytest.fixture
def group(target_cluster: KafkaCluster, logs: Path, tmp_path: Path) -> Iterator[Group]:
    given = {
        **worker_properties(target_cluster.bootstrap_servers, unique("scale")),
        "plugin.path": str(PLUGINS),
        # Others hear with their heartbeats that one of them joins again.
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "1000",
    }
    with worker_group(3, given, tmp_path, logs) as found:
        yield found


@dataclass
class Client:
    """Makes requests on one worker after the other, and keeps how long answers took."""

    group: Group
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._urls = cycle([worker.url for worker in self.group.workers])

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request that succeeds, made again where the group rebalances."""

        def asked() -> Any:
            began = time.monotonic()
            answer = call(next(self._urls), method, path, body)
            self.seconds.append(time.monotonic() - began)
            return None if answer.status == _CONFLICT else answer

        answer = wait_until(asked, _SETTLE_S, f"{method} {path}")
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.body!r}"
        return answer.json() if answer.body else None

    def take(self) -> str:
        """Words for how long the answers took since the last look."""
        taken, self.seconds = sorted(self.seconds), []
        middle, most = taken[len(taken) // 2], taken[-1]
        return f"answers p50 {middle * 1000:.0f} ms, at most {most * 1000:.0f} ms"


def phase(what: str, client: Client, ask: Callable[[], None], done: Callable[[], object]) -> None:
    began = time.monotonic()
    ask()
    asked = time.monotonic() - began
    wait_until(done, _SETTLE_S, what)
    settled = time.monotonic() - began
    workers = [psutil.Process(worker.process.pid) for worker in client.group.workers]
    memory = max(worker.memory_info().rss for worker in workers) / 1e6
    print(f"{what}: asked {asked:.1f} s, settled {settled:.1f} s, {client.take()}, {memory:.0f} MB")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_many_connectors_are_balanced_changed_and_gone(group: Group, count: int) -> None:
    client = Client(group)
    names = [f"c{number:03}" for number in range(count)]
    tasks = count * TASKS_EACH
    threads = [psutil.Process(worker.process.pid).num_threads() for worker in group.workers]

    def create() -> None:
        for name in names:
            body = {"name": name, "config": staged(TASKS_EACH, mark="1")}
            client.ask("POST", "/connectors", body)

    def change() -> None:
        for name in names:
            client.ask("PUT", f"/connectors/{name}/config", staged(TASKS_EACH, mark="2"))

    def delete() -> None:
        for name in names:
            client.ask("DELETE", f"/connectors/{name}")

    def balanced() -> bool:
        return group.is_balanced(count, tasks)

    def changed() -> bool:
        return balanced() and all(marks(group, name) == {"2"} for name in names)

    def gone() -> bool:
        return not group.call("GET", "/connectors?expand=status").json()

    phase("created", client, create, balanced)
    check_answers(client, names)
    phase("changed", client, change, changed)
    phase("deleted", client, delete, gone)

    def few_threads() -> bool:
        now = [psutil.Process(worker.process.pid).num_threads() for worker in group.workers]
        return all(a <= b + _THREADS_SLACK for a, b in zip(now, threads, strict=True))

    wait_until(few_threads, 30.0, "threads end with their tasks")


def marks(group: Group, name: str) -> set[str]:
    found = group.call("GET", f"/connectors/{name}/tasks").json()
    return {task["config"]["mark"] for task in found}


def check_answers(client: Client, names: list[str]) -> None:
    """Every kind of request, when nothing else goes on."""
    for worker in client.group.workers:
        wait_until(lambda url=worker.url: answers(url), _SETTLE_S, "idle")  # type: ignore[misc]
    name = names[len(names) // 2]
    for path in (
        "/",
        "/connectors",
        "/connectors?expand=info&expand=status",
        f"/connectors/{name}",
        f"/connectors/{name}/config",
        f"/connectors/{name}/status",
        f"/connectors/{name}/tasks",
        f"/connectors/{name}/topics",
        f"/connectors/{name}/offsets",
        "/connector-plugins",
    ):
        client.ask("GET", path)
    client.ask("PUT", f"/connectors/{name}/pause")
    client.ask("PUT", f"/connectors/{name}/resume")
    client.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    client.ask("POST", f"/connectors/{name}/tasks/0/restart")
    assert max(client.seconds) < IDLE_ANSWER_S, sorted(client.seconds)[-3:]
    print(f"idle: {client.take()}")


def answers(url: str) -> bool:
    """Whether the herder's thread has nothing else to do."""
    return call(url, "GET", "/health").status == 200
