"""What a trial has: two clusters with a flow between them, and workers that mirror it.

Each broker, controller and worker is a host of its own in a network of ours, and the brokers of the
target have small disks; a trial that does without has all of them on loopback, or ordinary disks.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from connect.errors import DeadlineExceeded
from deploy.brokers import GuardedProcess, JvmOptions, KafkaCluster, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.places import Place
from deploy.brokers.ports import PortLease
from tests.support.chaos.disks import Disk
from tests.support.chaos.needs import faketime
from tests.support.chaos.network import Network
from tests.support.chaos.schedule import Need
from tests.support.flows.mirrored import MirroredFlow
from tests.support.properties_files import properties_text

__all__ = ["Arena", "MirrorWorker", "arena"]

_HEAP = "192m"
_DISK_MB = 768
_STOP_S = 60.0


class MirrorWorker:
    """A process of `program`, `connect-mirror-maker` or `connect-distributed`, that may be killed
    and started again. Where it is preloaded with libfaketime its wall clock is off by what
    `set_clock` says; durations are always right."""

    def __init__(
        self,
        number: int,
        program: str,
        properties: Mapping[str, str],
        place: Place,
        directory: Path,
        log: Path,
        *,
        clock: bool,
    ) -> None:
        self.number = number
        self._program = program
        self._preload = faketime() if clock else None
        self.name = f"worker{number}"
        self.log = log
        self._lease = PortLease(cache_directory() / "ports")
        self._place = place
        self._path = directory / f"worker-{number}.properties"
        self._clock = directory / f"worker-{number}.clock"
        self.url = f"http://{place.host}:{self._lease.port}"
        lines = {**properties, "listeners": self.url}
        self._path.write_text(properties_text(lines))
        self._process: GuardedProcess | None = None
        self.set_clock(0)

    @property
    def process(self) -> GuardedProcess:
        assert self._process is not None
        return self._process

    def set_clock(self, seconds: int) -> None:
        self._clock.write_text(f"{seconds:+d}\n")

    def start(self) -> None:
        if self._process is not None:
            self._process.close()
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        if self._preload is not None:
            environment |= {
                "LD_PRELOAD": str(self._preload),
                "FAKETIME_TIMESTAMP_FILE": str(self._clock),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        script = Path(sys.executable).with_name(self._program)
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
    """`disks`: of the target's nodes, by their number. `workers`: none yet when it is made."""

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

    def add_workers(
        self,
        count: int,
        program: str,
        properties: Mapping[str, str],
        stack: ExitStack,
        *,
        clock: bool,
    ) -> None:
        for number in range(1, count + 1):
            place = self.places.get(f"worker{number}", Place())
            log = self.logs / f"worker-{number}.log"
            worker = MirrorWorker(
                number, program, properties, place, self.directory, log, clock=clock
            )
            stack.callback(worker.close)
            self.workers.append(worker)
            worker.start()


def _cluster(
    name: str,
    nodes: int,
    controllers: int,
    kafka: KafkaRuntime,
    logs: Path,
    directory: Path,
    places: dict[str, Place],
) -> KafkaCluster:
    copies = str(min(nodes, 3))
    hosts = range(1, nodes + controllers + 1)
    return KafkaCluster(
        nodes,
        controllers=controllers,
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
        places={n: places[f"{name}{n}"] for n in hosts if f"{name}{n}" in places},
    )


@contextmanager
def arena(
    nodes: int,
    controllers: int,
    workers: int,
    without: Collection[Need],
    kafka: KafkaRuntime,
    logs: Path,
) -> Iterator[Arena]:
    """Clusters that run, each of `nodes` brokers and `controllers` that are no brokers (0: brokers
    are), and no worker yet."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-trial-")))
        network = stack.enter_context(Network()) if "links" not in without else None
        places: dict[str, Place] = {}
        if network is not None:
            sides = ("source", "target")
            # Rough links are drawn from the first of these.
            names = [f"{side}{n}" for side in sides for n in range(1, nodes + 1)]
            names += [f"worker{n}" for n in range(1, workers + 1)]
            more = range(nodes + 1, nodes + controllers + 1)
            names += [f"{side}{n}" for side in sides for n in more]
            places = {name: network.add(name) for name in names}
        disks = _disks(nodes, directory, stack) if "disks" not in without else {}
        clusters = [
            _cluster(s, nodes, controllers, kafka, logs, directory, places)
            for s in ("source", "target")
        ]
        for cluster in clusters:
            stack.callback(cluster.close)
            stack.callback(_kill, cluster)
            cluster.start()
        source, target = clusters
        flow = MirroredFlow(source, target)
        yield Arena(source, target, flow, directory, logs, network, places, disks)


def _kill(cluster: KafkaCluster) -> None:
    for node in (*cluster.nodes, *cluster.controllers):
        node.resume()
        node.kill()


def _disks(nodes: int, directory: Path, stack: ExitStack) -> dict[int, Disk]:
    found: dict[int, Disk] = {}
    for node in range(1, nodes + 1):
        found[node] = Disk(directory / "target" / f"node-{node}" / "data", _DISK_MB)
        stack.callback(found[node].close)
    return found
