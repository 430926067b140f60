"""One Kafka node: its files, its process, and the operations on it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from connect.errors import DeadlineExceeded
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.places import Place
from deploy.brokers.process import GuardedProcess, complaints
from deploy.brokers.properties import INTERNAL, render
from deploy.brokers.readiness import wait_until_serving
from deploy.brokers.runtime import JvmOptions, KafkaRuntime
from deploy.brokers.storage import format_storage

__all__ = ["DATA", "KafkaNode"]

DATA = "data"
"""The folder of a node's directory that contains its logs."""

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0


class KafkaNode:
    """A broker, a controller, or both. Created and owned by `KafkaCluster`.

    Its data and ports stay the same through `kill`, `stop` and `start`. Not thread-safe, but
    different nodes may be used by different threads.
    """

    def __init__(
        self,
        node_id: int,
        ports: Mapping[str, int],
        directory: Path,
        log: Path,
        properties: Mapping[str, str],
        kafka: KafkaRuntime,
        jvm: JvmOptions,
        *,
        temporary: bool,
        formatted: bool = True,
        before_launch: Callable[[], None] | None = None,
        place: Place | None = None,
    ) -> None:
        """`ports`: by listener name. `directory`: its data; if `temporary`, it is deleted with the
        process that owns it. `log`: the file for the output of all its runs. `formatted`: whether
        its storage must be formatted, as in KRaft. `before_launch`: called before each start of its
        process."""
        self.node_id = node_id
        self.ports = dict(ports)
        self.directory = directory
        self.log = log
        self._kafka = kafka
        self._jvm = jvm
        self._temporary = temporary
        self._formatted = formatted
        self._before_launch = before_launch
        self._place = place or Place()
        self._process: GuardedProcess | None = None
        self._log_start = 0  # Byte offset in the log at which the current run starts.
        self._config = directory / "server.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self._config.write_text(render(properties), encoding="ascii")

    def bootstrap_server(self, listener: str = INTERNAL) -> str:
        """Return `host:port` of this node only."""
        return f"{self._place.host}:{self.ports[listener]}"

    @property
    def pid(self) -> int | None:
        """Return the process ID of its JVM; None if it is not running."""
        return self._process.pid if self._process is not None and self.running() else None

    def running(self) -> bool:
        """Whether its process exists, even if it is paused."""
        return self._process is not None and self._process.running()

    def format(self, cluster_id: str, arguments: Sequence[str] = ()) -> None:
        """Format its storage with StorageTool and these arguments. No effect if it is formatted, or
        if the broker uses ZooKeeper."""
        if not self._formatted:
            return
        data = self.directory / DATA
        format_storage(
            self._kafka, cluster_id, self.node_id, self._config, data, self.log, arguments
        )

    def launch(self) -> None:
        """Start its process without waiting until it serves. No effect while it runs."""
        if self.running():
            return
        if self._process is not None:
            self._process.close()
        if self._before_launch is not None:
            self._before_launch()
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = GuardedProcess(
            [
                *self._place.prefix,
                *self._kafka.command("kafka.Kafka", [str(self._config)], self._jvm),
            ],
            self.log,
            remove_if_orphaned=self.directory if self._temporary else None,
        )

    def start(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start it, and wait until it serves requests as part of its cluster."""
        self.launch()
        self.wait_until_ready(timeout_s)

    def wait_until_ready(self, timeout_s: float = _START_TIMEOUT_S, brokers: int = 1) -> None:
        """Wait until its metadata response contains itself and at least `brokers` brokers.

        Raises `ProcessFailed` with errors from its log if it ends or the time is over.
        """
        try:
            wait_until_serving(
                self.bootstrap_server(), self.node_id, brokers, timeout_s, self.running
            )
        except (DeadlineExceeded, ProcessFailed) as error:
            raise ProcessFailed(
                f"{error}; {self.log} says:\n{complaints(self.log, self._log_start)}"
            ) from error

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Send SIGTERM, so that it moves leaders and flushes its log; SIGKILL after `timeout_s`."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL, and wait until it has ended."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Send SIGSTOP. Its connections stay open but nothing responds."""
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it if it runs. May be called repeatedly."""
        if self._process is not None:
            self._process.close()
