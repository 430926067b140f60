"""A Spark Connect server of its own on loopback, and the packages of its clients."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyspark

from connect.cache_directory import cache_directory
from connect.clock import Deadline
from connectors.spark.properties import session_properties
from deploy.brokers.cache import cache_directory as ports_directory
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.java import find_or_install_java
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.brokers.process import GuardedProcess, complaints

__all__ = ["REMOTE_VARIABLE", "ConnectServer", "client_environment", "install_client"]

CHECKOUT = Path(__file__).parents[3]
REMOTE_VARIABLE = "KAFKA_CONNECT_MIRROR_TEST_SPARK_REMOTE"
"""In a process of tests with this variable, `spark` is a session of this server."""

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_S, _INSTALL_S, _POLL_S = 180.0, 300.0, 0.2
_NONE: Mapping[str, str] = MappingProxyType({})


class ConnectServer:
    """One server, whose executor is in its JVM. It knows nothing of this program's environment, and
    keeps an event log. Has the Kafka source with `kafka`."""

    def __init__(
        self,
        logs: Path,
        *,
        path: Sequence[Path] = (),
        kafka: bool = False,
        more: Mapping[str, str] = _NONE,
    ) -> None:
        """`path`: where it looks for Python before the system's PATH. `more`: its own `spark.*`."""
        self._lease = PortLease(ports_directory() / "ports")
        self._directory = Path(tempfile.mkdtemp(prefix="spark-connect-"))
        self._path = [str(each) for each in path]
        self._log = logs / "spark-connect-server.log"
        self._events = self._directory / "events"
        self._events.mkdir()
        given = {
            "spark.master": "local[2]",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._lease.port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self._events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            **more,
        }
        self._properties = session_properties(given, kafka=kafka, cache=cache_directory())
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """The address for `spark.remote`."""
        return f"sc://{LOOPBACK}:{self._lease.port}"

    def start(self) -> None:
        """Return once it accepts connections. Raises `ProcessFailed`."""
        home = Path(pyspark.__file__).parent
        options = [
            part for key, value in self._properties.items() for part in ("--conf", f"{key}={value}")
        ]
        self._process = GuardedProcess(
            [str(home / "bin" / "spark-submit"), *options, "--class", _MAIN, "spark-internal"],
            self._log,
            environment={
                "PATH": os.pathsep.join([*self._path, os.defpath.strip(os.pathsep)]),
                "HOME": str(Path.home()),
                "LANG": "C.UTF-8",
                "JAVA_HOME": str(find_or_install_java().resolve().parent.parent),
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_DIRS": str(self._directory),
                "SPARK_LOCAL_IP": LOOPBACK,
            },
            directory=self._directory,
            remove_if_orphaned=self._directory,
        )
        deadline, pause = Deadline(_START_S), threading.Event()
        while not self._answers():
            if not self._process.running() or deadline.expired():
                raise ProcessFailed(
                    f"The Spark Connect server did not start; {self._log} says:\n"
                    f"{complaints(self._log)}"
                )
            pause.wait(_POLL_S)

    def events(self) -> list[dict[str, Any]]:
        """What its event log has by now."""
        (log,) = self._events.iterdir()
        return [json.loads(line) for line in log.read_text().splitlines()]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.close()
        self._lease.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @contextmanager
    def running(self) -> Iterator[ConnectServer]:
        try:
            self.start()
            yield self
        finally:
            self.close()

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOOPBACK, self._lease.port), 1.0).close()
        except OSError:
            return False
        return True


def install_client(folder: Path) -> Path:
    """Install the packages of Spark Connect's client into a folder, which the other tests lack."""
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    lock = str(CHECKOUT / "requirements-spark-connect.lock")
    command = [sys.executable, *install, "--target", str(folder), "-r", lock]
    subprocess.run(command, check=True, timeout=_INSTALL_S)
    return folder


def client_environment(packages: Path) -> dict[str, str]:
    """The environment of a process with these packages, and without a Java."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(packages)]),
        "JAVA_HOME": "",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent)]),
    }
