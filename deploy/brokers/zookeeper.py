"""The ZooKeeper server of a cluster whose Kafka version needs one. It comes with that version's
jars."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.ports import LOOPBACK
from deploy.brokers.process import GuardedProcess, complaints
from deploy.brokers.properties import render
from deploy.brokers.runtime import JvmOptions, KafkaRuntime

__all__ = ["ZooKeeper"]

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_HEAP = "128m"
_POLL_S = 0.05
_PROBE_TIMEOUT_S = 1.0
# A session ends within the broker's zookeeper.session.timeout.ms plus one tick.
_SESSION_TIMEOUT_S = 30.0


class ZooKeeper:
    """One standalone server on loopback. Created and owned by `KafkaCluster`. Not thread-safe."""

    def __init__(
        self, port: int, directory: Path, log: Path, kafka: KafkaRuntime, *, temporary: bool
    ) -> None:
        """`directory`: its data; if `temporary`, it is deleted with the process that owns it.
        `log`: the file for its output."""
        self.port = port
        self.directory = directory
        self.log = log
        self._kafka = kafka
        self._temporary = temporary
        self._process: GuardedProcess | None = None
        self._config = directory / "zookeeper.properties"
        directory.mkdir(parents=True, exist_ok=True)
        properties = {
            "dataDir": str(directory / "data"),
            "clientPort": str(port),
            "clientPortAddress": LOOPBACK,
            "maxClientCnxns": "0",
            # The admin server would bind port 8080.
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,dump",
        }
        self._config.write_text(render(properties), encoding="ascii")

    @property
    def address(self) -> str:
        """Return `host:port` for brokers."""
        return f"{LOOPBACK}:{self.port}"

    def start(self, timeout_s: float) -> None:
        """Start it, and wait until it responds. No effect while it runs.

        Raises `ProcessFailed` with errors from its log if it ends or the time is over.
        """
        if self._process is not None:
            if self._process.running():
                return
            self._process.close()
        start = self.log.stat().st_size if self.log.exists() else 0
        jvm = JvmOptions(heap=_HEAP, flags=("-Dzookeeper.jmx.log4j.disable=true",))
        self._process = GuardedProcess(
            self._kafka.command(_MAIN, [str(self._config)], jvm),
            self.log,
            remove_if_orphaned=self.directory if self._temporary else None,
        )
        try:
            self._wait_until_serving(self._process, Deadline(timeout_s))
        except (DeadlineExceeded, ProcessFailed) as error:
            raise ProcessFailed(f"{error}; {self.log} says:\n{complaints(self.log, start)}") from (
                error
            )

    def _wait_until_serving(self, process: GuardedProcess, deadline: Deadline) -> None:
        pause = threading.Event()
        while self._ask(b"ruok") != b"imok":
            if not process.running():
                raise ProcessFailed(f"ZooKeeper ended before it served {self.address}")
            deadline.check(f"Start of ZooKeeper at {self.address}")
            pause.wait(_POLL_S)

    def wait_until_unregistered(self, broker_id: int) -> None:
        """Wait until the session of a killed broker has ended, because a new process with the same
        ID is rejected until then.

        Returns at once if ZooKeeper does not respond. Raises `DeadlineExceeded` if the session does
        not end.
        """
        deadline = Deadline(_SESSION_TIMEOUT_S)
        pause = threading.Event()
        registered = f"/brokers/ids/{broker_id}".encode()
        while registered in self._ask(b"dump").split():
            deadline.check(f"Waiting for the ZooKeeper session of broker {broker_id} to end")
            pause.wait(_POLL_S)

    def _ask(self, command: bytes) -> bytes:
        """Return the response to one of ZooKeeper's four-letter words; empty if there is none."""
        answer = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, self.port), _PROBE_TIMEOUT_S) as probe,
        ):
            probe.sendall(command)
            while data := probe.recv(4096):
                answer += data
        return answer

    def stop(self, timeout_s: float) -> None:
        """Send SIGTERM, and SIGKILL after `timeout_s`."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def close(self) -> None:
        """Kill it if it runs. May be called repeatedly."""
        if self._process is not None:
            self._process.close()
