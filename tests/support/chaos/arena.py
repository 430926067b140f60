"""What a trial has: two clusters with a flow between them, and workers that mirror it.

Where this machine allows it, each broker and worker is a host of its own in a network of ours, and
the target's brokers have small disks; where not, all are on loopback, and `Arena.network` and
`Arena.disks` say so.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from connect.errors import ConnectError, DeadlineExceeded
from deploy.brokers import GuardedProcess, JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.places import Place
from deploy.brokers.ports import PortLease
from tests.support.chaos.disks import Disk
from tests.support.chaos.network import Network
from tests.support.mirrored import MirroredFlow

__all__ = ["Arena", "MirrorWorker", "arena"]

_HEAP = "192m"
_DISK_MB = 384
_STOP_S = 40.0
_FAKETIME = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"),
)


def _faketime() -> Path | None:
    """libfaketime, where it is installed: a process preloaded with it has the clock we want."""
    return next((path for path in _FAKETIME if path.exists()), None)


class MirrorWorker:
    """A `connect-mirror-maker` process that may be killed and started again. Its wall clock is off
    by what `set_clock` says, where libfaketime is there; durations are always right."""

    def __init__(
        self, number: int, properties: Mapping[str, str], place: Place, directory: Path, log: Path
    ) -> None:
        self.number = number
        self.name = f"worker{number}"
        self.log = log
        self._lease = PortLease(cache_directory() / "ports")
        self._place = place
        self._path = directory / f"worker-{number}.properties"
        self._clock = directory / f"worker-{number}.clock"
        listener = f"http://{place.host}:{self._lease.port}"
        lines = {
            **properties,
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": listener,
        }
        self._path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self._process: GuardedProcess | None = None
        self.set_clock(0)

    @property
    def process(self) -> GuardedProcess:
        assert self._process is not None
        return self._process

    def set_clock(self, seconds: int) -> bool:
        """Whether that is possible here."""
        self._clock.write_text(f"{seconds:+d}\n")
        return _faketime() is not None

    def start(self) -> None:
        if self._process is not None:
            self._process.close()
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        if (library := _faketime()) is not None:
            environment |= {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        script = Path(sys.executable).with_name("connect-mirror-maker")
        command = [*self._place.prefix, str(script), str(self._path)]
        self._process = GuardedProcess(command, self.log, environment=environment)

    def stop(self) -> int:
        """The exit status. One that does not stop shows in its log where its threads are."""
        self.process.signal(signal.SIGTERM)
        try:
            return self.process.wait(_STOP_S)
        except DeadlineExceeded:
            self.process.signal(signal.SIGABRT)  # PYTHONFAULTHANDLER
            return self.process.wait(_STOP_S)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._lease.close()


@dataclass
class Arena:
    """`disks`: of the target's nodes, by their number."""

    source: KafkaCluster
    target: KafkaCluster
    flow: MirroredFlow
    directory: Path
    logs: Path
    network: Network | None
    places: Mapping[str, Place]
    disks: Mapping[int, Disk]
    workers: list[MirrorWorker] = field(default_factory=list)

    def cluster(self, side: str) -> KafkaCluster:
        return self.source if side == "source" else self.target

    def add_workers(self, count: int, properties: Mapping[str, str], stack: ExitStack) -> None:
        for number in range(1, count + 1):
            place = self.places.get(f"worker{number}", Place())
            log = self.logs / f"worker-{number}.log"
            worker = MirrorWorker(number, properties, place, self.directory, log)
            stack.callback(worker.close)
            self.workers.append(worker)
            worker.start()


def _cluster(
    name: str,
    nodes: int,
    kafka: KafkaRuntime,
    logs: Path,
    directory: Path,
    places: dict[str, Place],
) -> KafkaCluster:
    copies = str(min(nodes, 3))
    return KafkaCluster(
        nodes,
        name=name,
        properties={
            "log.retention.ms": "-1",
            "default.replication.factor": copies,
            "min.insync.replicas": str(min(nodes, 2)),
            "log.index.size.max.bytes": str(1 << 20),
            "log.segment.bytes": str(4 << 20),
            "num.network.threads": "2",
            "num.io.threads": "2",
        },
        jvm=JvmOptions(heap=_HEAP),
        kafka=kafka,
        directory=directory / name,
        logs=logs,
        places={n: places[f"{name}{n}"] for n in range(1, nodes + 1) if f"{name}{n}" in places},
    )


@contextmanager
def arena(nodes: int, workers: int, kafka: KafkaRuntime, logs: Path) -> Iterator[Arena]:
    """Clusters that run, and no worker yet."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-trial-")))
        network = stack.enter_context(Network()) if Network.allowed() else None
        places: dict[str, Place] = {}
        if network is not None:
            brokers = [f"{side}{n}" for side in ("source", "target") for n in range(1, nodes + 1)]
            names = [*brokers, *(f"worker{n}" for n in range(1, workers + 1))]
            places = {name: network.add(name) for name in names}
        disks = _disks(nodes, directory, stack)
        clusters = [
            _cluster(s, nodes, kafka, logs, directory, places) for s in ("source", "target")
        ]
        for cluster in clusters:
            stack.callback(cluster.close)
            stack.callback(_kill, cluster)
            cluster.start()
        source, target = clusters
        flow = MirroredFlow(source, target)
        yield Arena(source, target, flow, directory, logs, network, places, disks)


def _kill(cluster: KafkaCluster) -> None:
    for node in cluster.nodes:
        node.resume()
        node.kill()


def _disks(nodes: int, directory: Path, stack: ExitStack) -> dict[int, Disk]:
    found: dict[int, Disk] = {}
    if os.geteuid() != 0:
        return found
    for node in range(1, nodes + 1):
        try:
            disk = Disk(directory / "target" / f"node-{node}" / "data", _DISK_MB)
        except (ConnectError, OSError):
            break
        stack.callback(disk.close)
        found[node] = disk
    return found
