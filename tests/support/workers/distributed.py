"""Our distributed workers as child processes: one group, several workers, and their REST."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from deploy.brokers import GuardedProcess
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.properties_files import properties_text
from tests.support.rest import Answer, call
from tests.support.waiting import wait_until
from tests.support.workers.workers import is_healthy

__all__ = ["Group", "GroupWorker", "file_source", "running_tasks", "worker_group"]

_START_S = 60.0
_STOP_S = 40.0
_SETTLE_S = 60.0


class GroupWorker:
    """One worker process. Its port stays its own over restarts."""

    def __init__(
        self,
        number: int,
        properties: Mapping[str, str],
        directory: Path,
        logs: Path,
        program: Sequence[str] = ("api.cli.distributed",),
    ) -> None:
        """`program`: the module to run, and arguments before the file."""
        self.command: Sequence[str] = (sys.executable, "-m", *program)
        """What its next start runs, before the file."""
        self.number = number
        self._lease = PortLease(cache_directory() / "ports")
        self.url = f"http://{LOOPBACK}:{self._lease.port}"
        self.worker_id = f"{LOOPBACK}:{self._lease.port}"
        self._log = logs / f"worker-{number}.log"
        self._path = directory / f"worker-{number}.properties"
        self._lines = {"listeners": self.url}
        self.configure(properties)
        self._process: GuardedProcess | None = None

    def configure(self, properties: Mapping[str, str]) -> None:
        """Change these properties, for its next start."""
        self._lines |= properties
        self._path.write_text(properties_text(self._lines))

    @property
    def process(self) -> GuardedProcess:
        assert self._process is not None, f"worker {self.number} was not started"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running()

    def start(self) -> GroupWorker:
        """Begin; `await_ready` tells when it is in its group."""
        if self._process is not None:
            self._process.close()
        self._process = GuardedProcess([*self.command, str(self._path)], self._log)
        return self

    def await_ready(self) -> GroupWorker:
        def ready() -> bool:
            assert self.running, f"worker {self.number} has ended; see {self._log}"
            return is_healthy(self.url)

        wait_until(ready, _START_S, f"worker {self.number} to be ready")
        return self

    def stop(self) -> None:
        assert self.process.stop(_STOP_S) == 0, f"see {self._log}"

    def kill(self) -> None:
        """As kill -9."""
        self.process.kill()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._lease.close()


class Group:
    """Workers of one group, numbered from 1. Requests go to the first that runs."""

    def __init__(self, workers: Sequence[GroupWorker], properties: Mapping[str, str]) -> None:
        self.workers = list(workers)
        self.properties = properties

    @property
    def first(self) -> GroupWorker:
        return next(worker for worker in self.workers if worker.running)

    def call(self, method: str, path: str, body: object = None) -> Answer:
        return call(self.first.url, method, path, body)

    def accepted(self, method: str, path: str, body: object = None) -> Answer:
        """A request that succeeds, made again while the group rebalances or a leader is found."""

        def ask() -> Answer | None:
            answer = self.call(method, path, body)
            return None if answer.status == 409 else answer

        found = wait_until(ask, _SETTLE_S, f"{method} {path}")
        assert found is not None
        assert found.status < 300, f"{method} {path}: {found.status} {found.body!r}"
        return found

    def create(self, name: str, config: Mapping[str, str], initial_state: str | None = None) -> Any:
        body: dict[str, object] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        return self.accepted("POST", "/connectors", body).json()

    def leader(self) -> GroupWorker:
        """The worker that leads, once there is one: only a leader answers this itself, for a
        connector that does not exist."""
        path = "/connectors/nobody/restart?includeTasks=true&onlyFailed=true&forward=false"

        def found() -> GroupWorker | None:
            running = [worker for worker in self.workers if worker.running]
            return next((w for w in running if call(w.url, "POST", path).status == 404), None)

        leading = wait_until(found, _SETTLE_S, "a leader")
        assert leading is not None
        return leading

    def placed(self) -> dict[str, dict[str, str]]:
        """Worker id by what it runs there, as far as it is RUNNING: of connectors, "c", and their
        tasks, "c-0"."""
        found: dict[str, dict[str, str]] = {"connectors": {}, "tasks": {}}
        for name, shown in self.call("GET", "/connectors?expand=status").json().items():
            status = shown["status"]
            if status["connector"]["state"] == "RUNNING":
                found["connectors"][name] = status["connector"]["worker_id"]
            for task in status["tasks"]:
                if task["state"] == "RUNNING":
                    found["tasks"][f"{name}-{task['id']}"] = task["worker_id"]
        return found

    def until_balanced(self, connectors: int, tasks: int, timeout_s: float = _SETTLE_S) -> None:
        """Until so many run, on workers that are alive, dealt out within one of each other."""

        def balanced() -> bool:
            return self.is_balanced(connectors, tasks)

        wait_until(balanced, timeout_s, f"{connectors} connectors and {tasks} tasks, balanced")

    def is_balanced(self, connectors: int, tasks: int) -> bool:
        placed = self.placed()
        counts = {"connectors": connectors, "tasks": tasks}
        return all(self._even(placed[kind], counts[kind]) for kind in placed)

    def _even(self, places: Mapping[str, str], count: int) -> bool:
        alive = [worker.worker_id for worker in self.workers if worker.running]
        loads = [list(places.values()).count(worker) for worker in alive]
        return sum(loads) == len(places) == count and max(loads) - min(loads) <= 1

    def status(self, name: str) -> Any:
        """None while there is none."""
        answer = self.call("GET", f"/connectors/{name}/status")
        return answer.json() if answer.status == 200 else None

    def until(
        self, condition: Callable[[], object], what: str, timeout_s: float = _SETTLE_S
    ) -> Any:
        return wait_until(condition, timeout_s, what)

    def until_running(self, name: str, tasks: int, timeout_s: float = _SETTLE_S) -> Any:
        """The status once the connector and so many tasks run on workers that are alive."""

        def settled() -> Any:
            status = self.status(name)
            alive = {worker.worker_id for worker in self.workers if worker.running}
            return status if running_tasks(status, alive) == tasks else None

        return wait_until(settled, timeout_s, f"{name} to run with {tasks} tasks")


def running_tasks(status: Any, workers: set[str]) -> int:
    """How many tasks run on these workers; -1 if the connector itself does not."""
    if status is None:
        return -1
    connector = status["connector"]
    if connector["state"] != "RUNNING" or connector["worker_id"] not in workers:
        return -1
    return sum(
        task["state"] == "RUNNING" and task["worker_id"] in workers for task in status["tasks"]
    )


@contextmanager
def worker_group(
    count: int,
    properties: Mapping[str, str],
    directory: Path,
    logs: Path,
    *,
    start: bool = True,
    command: Sequence[str] | None = None,
) -> Iterator[Group]:
    """`count` workers that are in their group, unless they are not to be started. `command`: what
    to run instead of this checkout's worker."""
    with ExitStack() as stack:
        workers = []
        for number in range(1, count + 1):
            worker = GroupWorker(number, properties, directory, logs)
            stack.callback(worker.close)
            worker.command = command or worker.command
            workers.append(worker)
        group = Group(workers, properties)
        if start:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.await_ready()
        yield group
        for worker in workers:
            if worker.running:
                worker.stop()


def file_source(topic: str, file: Path) -> dict[str, str]:
    """A connector with one task."""
    return {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "tasks.max": "1",
    }
