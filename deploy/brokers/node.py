"""One Kafka node: its files, its process, and what may be done to it."""

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
"""The folder of a node's directory that has its logs."""

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0


class KafkaNode:
    """A broker, a controller, or both. Made by `KafkaCluster`, which owns it.

    Its data and ports stay the same through `kill`, `stop` and `start`. Not thread-safe: one
    thread at a time for each node, other nodes may be handled by other threads.
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
        """`ports`: by listener name. `directory`: its data, deleted with the process that owns it
        where `temporary`. `log`: the file for its output, of all its runs one after another.
        `formatted`: whether its storage must be formatted, as KRaft's must.
        `before_launch`: called before its process is started, each time."""
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
        self._log_start = 0  # where the current run begins in the log, in bytes
        self._config = directory / "server.properties"
        directory.mkdir(parents=True, exist_ok=True)
        self._config.write_text(render(properties), encoding="ascii")

    def bootstrap_server(self, listener: str = INTERNAL) -> str:
        """`host:port` of this node alone."""
        return f"{self._place.host}:{self.ports[listener]}"

    @property
    def pid(self) -> int | None:
        """Process id of its JVM; None when it is not running."""
        return self._process.pid if self._process is not None and self.running() else None

    def running(self) -> bool:
        """Whether its process exists; true also while it is paused."""
        return self._process is not None and self._process.running()

    def format(self, cluster_id: str, arguments: Sequence[str] = ()) -> None:
        """Format its storage; no effect on a formatted one, nor on a broker of ZooKeeper, which
        needs none. `arguments` go to StorageTool."""
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
        """Start it, and wait until it answers requests and is part of its cluster."""
        self.launch()
        self.wait_until_ready(timeout_s)

    def wait_until_ready(self, timeout_s: float = _START_TIMEOUT_S, brokers: int = 1) -> None:
        """Wait until it answers with metadata that names itself and at least `brokers` brokers.

        Raises `ProcessFailed`, with what its log complains about, if it ends or the time passes.
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
        """SIGTERM, so leaders move away and the log is flushed; SIGKILL after `timeout_s`."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it if it runs. May be called again."""
        if self._process is not None:
            self._process.close()
