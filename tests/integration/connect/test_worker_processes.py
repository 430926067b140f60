"""`connect-distributed --workers N`: several worker processes as one program."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.properties_files import properties_text
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.ledgers import PLUGINS, staged
from tests.support.workers.workers import is_healthy

COUNT = 2
_WAIT_S = 60.0


class Program:
    """The command, its worker processes, and the listener of the first."""

    def __init__(self, properties: dict[str, str], directory: Path, log: Path) -> None:
        self._lease = PortLease(cache_directory() / "ports")
        self.url = f"http://{LOOPBACK}:{self._lease.port}"
        self.first_id = f"{LOOPBACK}:{self._lease.port}"
        path = directory / "worker.properties"
        lines = {**properties, "listeners": self.url}
        path.write_text(properties_text(lines))
        command = [sys.executable, "-m", "api.cli.distributed", "--workers", str(COUNT), str(path)]
        with log.open("wb") as output:
            # Not guarded: what happens to the workers when this process dies is what is tested.
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )
        self.seen: set[psutil.Process] = set()

    def workers(self) -> list[psutil.Process]:
        found = psutil.Process(self.process.pid).children()
        self.seen.update(found)
        return found

    def serves_with(self, count: int, name: str) -> bool:
        """Whether the connector's tasks run on so many workers, the first among them."""
        if not is_healthy(self.url):
            return False
        answer = call(self.url, "GET", f"/connectors/{name}/status")
        status = answer.json() if answer.status == 200 else {"tasks": []}
        ids = {task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"}
        return len(ids) == count and self.first_id in ids

    def close(self) -> None:
        if self.process.poll() is None:
            self.workers()
        self.process.kill()
        for process in self.seen:
            if process.is_running():
                process.kill()
        self.process.wait(_WAIT_S)
        self._lease.close()


@pytest.fixture
def program(target_cluster: KafkaCluster, tmp_path: Path, logs: Path) -> Iterator[Program]:
    given = {
        **worker_properties(target_cluster.bootstrap_servers, unique("processes")),
        "plugin.path": str(PLUGINS),
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "500",
    }
    started = Program(given, tmp_path, logs / "program.log")
    try:
        yield started
    finally:
        started.close()


def running(program: Program) -> str:
    """A connector with a task on each worker."""
    name = unique("spread")

    def created() -> bool:
        if not is_healthy(program.url):
            return False
        body = {"name": name, "config": staged(COUNT)}
        return call(program.url, "POST", "/connectors", body).status == 201

    wait_until(created, _WAIT_S, "the connector is created")
    spread(program, name)
    return name


def spread(program: Program, name: str) -> None:
    wait_until(lambda: program.serves_with(COUNT, name), _WAIT_S, f"tasks on {COUNT} workers")


def test_workers_share_tasks_are_started_again_and_stop_together(program: Program) -> None:
    name = running(program)
    before = program.workers()
    assert len(before) == COUNT
    listening = next(p for p in before if urlsplit(program.url).port in listeners_of(p))
    other = next(p for p in before if p is not listening)
    for victim in (other, listening):
        victim.kill()
        wait_until(lambda: len(program.workers()) == COUNT, _WAIT_S, "a new process")
        spread(program, name)
    after = program.workers()
    assert {other.pid, listening.pid}.isdisjoint(process.pid for process in after)

    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(_WAIT_S) == 0
    assert [process for process in program.seen if process.is_running()] == []


def listeners_of(process: psutil.Process) -> list[int]:
    """The ports at which a worker, or a client of its, listens."""
    sockets = process.net_connections("tcp")
    return [one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN]


def test_workers_stop_when_their_program_is_killed(program: Program) -> None:
    name = running(program)
    workers = program.workers()
    program.process.kill()
    program.process.wait(_WAIT_S)
    gone, alive = psutil.wait_procs(workers, timeout=_WAIT_S)
    assert alive == []
    assert len(gone) == COUNT
    assert name


def test_wrong_properties_are_told_once(target_cluster: KafkaCluster, tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    given = worker_properties(target_cluster.bootstrap_servers, unique("wrong"))
    lines = {**given, "connect.protocol": "loud"}
    path.write_text(properties_text(lines))
    command = [sys.executable, "-m", "api.cli.distributed", "--workers", "2", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    assert ended.returncode == 78
    assert ended.stderr.count("connect.protocol") == 1
