"""A real standalone Spark cluster on loopback: a master and workers, from the pyspark distribution.

    with SparkCluster(workers=2) as cluster:
        run({"spark.master": cluster.url})

Its processes see neither this program's directory nor its Python environment. As on other machines,
code must be sent to executors. All processes end with the block, executors included.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pyspark

from connect.clock import Deadline
from deploy.brokers.cache import cache_directory
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.java import find_or_install_java
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.brokers.process import GuardedProcess, complaints

__all__ = ["SparkCluster"]

_START_TIMEOUT_S = 90.0
_END_TIMEOUT_S = 10.0
_ASK_TIMEOUT_S = 5.0
_POLL_S = 0.1
_ATTEMPTS = 3
_PORT_TAKEN = ("Address already in use", "BindException")
_DAEMON_MEMORY = "128m"
_QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_PYTHON = "pyspark.daemon"
_LOCAL_VARIABLE = "SPARK_LOCAL_DIRS"
_OWN_VARIABLE = "SPARK_CLUSTER_DIRECTORY"
"""All processes of the cluster have this variable, so they are found even if their parents are
dead."""


class SparkCluster:
    """One master and `workers` workers. A single owner; not thread-safe."""

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        memory: str = "1g",
        path: Sequence[Path] = (),
        logs: Path | None = None,
        home: Path | None = None,
        hosts: bool = False,
    ) -> None:
        """`cores`, `memory`: each worker's resources for executors. `path`: where executors look
        for programs such as Python, before the system's PATH. `logs`: the output directory of
        master, workers and executors; by default a temporary one. `home`: Spark's home. `hosts`:
        give each worker its own loopback address, because Spark tells machines apart by address;
        not every system supports that."""
        self._count = workers
        self._cores = cores
        self._memory = memory
        self._path = [str(each) for each in path]
        self._hosts = hosts
        self._home = home or Path(pyspark.__file__).parent
        self._directory = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        self._logs = logs or self._directory / "logs"
        self._leases: list[PortLease] = []
        self._master: GuardedProcess | None = None
        self._workers: dict[int, GuardedProcess] = {}
        self._port = self._ui_port = self._started = 0

    @property
    def url(self) -> str:
        """Return the URL for `spark.master`."""
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def workers(self) -> list[int]:
        """Return the numbers of the workers that were not killed."""
        return list(self._workers)

    def start(self, timeout_s: float = _START_TIMEOUT_S) -> Self:
        """Start all processes. Returns once the master knows all workers. Raises `DeployError`;
        then no process is left running."""
        deadline = Deadline(timeout_s)
        try:
            self._start_master(deadline)
            for _ in range(self._count):
                self._launch_worker()
            self._wait(deadline, self._count)
        except BaseException:
            self.close()
            raise
        return self

    @property
    def pids(self) -> list[int]:
        """Return the process IDs of the master and the workers. Executors and their Python are
        children of a worker."""
        found = [self._master, *self._workers.values()]
        return [process.pid for process in found if process is not None]

    def add_worker(self, timeout_s: float = _START_TIMEOUT_S) -> int:
        """Add a worker and return its number."""
        before = len(self.workers)
        number = self._launch_worker()
        self._wait(Deadline(timeout_s), before + 1)
        return number

    def kill_worker(self, number: int) -> None:
        """Send SIGKILL to a worker and its executors, like the loss of a machine."""
        process = self._workers.pop(number)
        process.kill()
        process.close()

    def executors(self, worker: int | None = None) -> list[int]:
        """Return the process IDs of running executors, of one worker or of all."""
        return [
            process.pid for process in self._processes(worker) if _EXECUTOR in _command(process)
        ]

    def pythons(self, worker: int | None = None) -> list[int]:
        """Return the process IDs of the Python processes that run executors' tasks, of one worker
        or of all. Includes processes that outlived their executor."""
        return [process.pid for process in self._processes(worker) if _PYTHON in _command(process)]

    def commands(self) -> list[list[str]]:
        """Return the command lines of all its processes, as every user of the machine sees them."""
        return [_command(process) for process in self._processes()]

    def applications(self) -> list[dict[str, Any]]:
        """Return the running applications, as the master reports them."""
        return list(self._ask()["activeapps"])

    def close(self) -> None:
        """Kill all processes, wait until they have ended, and delete the temporary files. May be
        called repeatedly."""
        for process in [*self._workers.values(), *([self._master] if self._master else [])]:
            process.signal(signal.SIGKILL, group=True)
            process.close()
        self._workers.clear()
        self._master = None
        # A Python worker process ends by itself when its executor is gone. Kill those that do not.
        _, left = psutil.wait_procs(self._processes(), _END_TIMEOUT_S)
        for orphan in left:
            orphan.kill()
        psutil.wait_procs(left, _END_TIMEOUT_S)
        for lease in self._leases:
            lease.close()
        self._leases.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start_master(self, deadline: Deadline) -> None:
        for attempt in range(_ATTEMPTS):
            self._port, self._ui_port = self._lease(), self._lease()
            self._master = self._launch(
                "org.apache.spark.deploy.master.Master",
                ["--port", str(self._port), "--webui-port", str(self._ui_port)],
                "master",
            )
            try:
                self._wait(deadline, 0)
                return
            except ProcessFailed as error:
                taken = any(sign in str(error) for sign in _PORT_TAKEN)
                if not taken or attempt + 1 == _ATTEMPTS:
                    raise
                self._master.close()

    def _launch_worker(self) -> int:
        self._started += 1
        number = self._started
        # Executors work in it and write their output there, each in its own folder.
        work = self._logs / f"spark-work-{number}"
        arguments = ["--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory]
        self._workers[number] = self._launch(
            "org.apache.spark.deploy.worker.Worker",
            [*arguments, "--work-dir", str(work), self.url],
            f"worker-{number}",
            f"127.0.0.{number}" if self._hosts else LOOPBACK,
        )
        return number

    def _launch(
        self, main: str, arguments: Sequence[str], name: str, host: str = LOOPBACK
    ) -> GuardedProcess:
        own = self._directory / name
        own.mkdir(exist_ok=True)
        return GuardedProcess(
            [str(self._home / "bin" / "spark-class"), main, "--host", host, *arguments],
            self._logs / f"spark-{name}.log",
            environment=self._environment(own),
            directory=own,
            remove_if_orphaned=own,
        )

    def _environment(self, own: Path) -> dict[str, str]:
        """Return the processes' environment: this process's environment is left out, except for the
        location of Java."""
        return {
            "PATH": os.pathsep.join([*self._path, os.defpath.strip(os.pathsep)]),
            "HOME": str(own),
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(find_or_install_java().resolve().parent.parent),
            "SPARK_HOME": str(self._home),
            "SPARK_CONF_DIR": str(own),
            _LOCAL_VARIABLE: str(own),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_JVM,
            "SPARK_LAUNCHER_OPTS": _QUICK_JVM,
            _OWN_VARIABLE: str(self._directory),
        }

    def _lease(self) -> int:
        lease = PortLease(cache_directory() / "ports")
        self._leases.append(lease)
        return lease.port

    def _wait(self, deadline: Deadline, workers: int) -> None:
        """Wait until the master responds and knows this number of live workers."""
        pause = threading.Event()
        while True:
            for process in (self._master, *self._workers.values()):
                if process is not None and not process.running():
                    raise ProcessFailed(
                        f"A process of the Spark cluster ended; {process.log} says:\n"
                        f"{complaints(process.log)}"
                    )
            try:
                if len([w for w in self._ask()["workers"] if w["state"] == "ALIVE"]) >= workers:
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass  # The master does not listen yet.
            if deadline.expired():
                raise ProcessFailed(f"The Spark cluster did not start in time; see {self._logs}")
            pause.wait(_POLL_S)

    def _ask(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection(LOOPBACK, self._ui_port, timeout=_ASK_TIMEOUT_S)
        try:
            connection.request("GET", "/json/")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise ValueError("the response is not the master's state")
        return answer

    def _processes(self, worker: int | None = None) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            environment = _environment(process)
            if environment.get(_OWN_VARIABLE) != str(self._directory):
                continue
            # An executor's Python processes work in folders below the worker's directory.
            local = Path(environment.get(_LOCAL_VARIABLE, ""))
            if worker is None or local.is_relative_to(self._directory / f"worker-{worker}"):
                found.append(process)
        return found


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:  # Another user's process, or one that has ended.
        return {}


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
