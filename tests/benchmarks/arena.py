"""Where the systems meet: a pair of real clusters, and mirrors that run on it one at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import KafkaError, KafkaException

from connect.clock import SYSTEM_CLOCK, Deadline
from deploy.brokers import GuardedProcess, JvmOptions, KafkaCluster, KafkaRuntime, kafka_runtime
from deploy.brokers.places import Place
from tests.benchmarks.flows import RENAMED
from tests.benchmarks.systems import System, flow_properties
from tests.benchmarks.watching import EndOffsets, ProcessUse
from tests.support.copier.long_link import LongLink
from tests.support.records.topics import admin, create_topic, topic_names
from tests.support.waiting import wait_until

__all__ = [
    "FAR_S",
    "Arena",
    "Mirror",
    "create_led_topic",
    "delete_topics",
    "open_arena",
    "open_far_arena",
]

FAR_S = 0.1
"""The round trip of the long link."""

_BROKER_JVM = JvmOptions(heap="2g", quick=False, flags=("-Xms1g", "-XX:MaxGCPauseMillis=20"))
_BROKER_PROPERTIES = {
    # So that deleted copies leave the disk, and the page cache, before the next run.
    "log.segment.delete.delay.ms": "1000",
    # Kafka ships 10 MiB, of which a broker touches the first page with the second batch of every
    # partition. With some kernels that costs milliseconds, and nothing else would be measured.
    "log.index.size.max.bytes": "1048576",
}
_FAR_PROPERTIES = {
    # Kafka's 100 KiB allow 1 to 2 MB/s at this distance, whatever a mirror does.
    "socket.send.buffer.bytes": "-1",
    "socket.receive.buffer.bytes": "-1",
}
_CREATE_S = 300.0
_DELETE_S = 120.0
_STOP_S = 60.0
# After a copy was deleted, the kernel may still be writing pages of it.
_SETTLED_LOAD_CPU = 10.0
_SETTLE_S = 10.0


class Mirror:
    """A mirror that runs. `launched`: monotonic seconds. `ending`: what transformations put after
    the names of topics."""

    def __init__(
        self, alias: str, system: System, process: GuardedProcess, launched: float, ending: str
    ) -> None:
        self.alias = alias
        self._ending = ending
        self._ends = system.ends
        self.process = process
        self.launched = launched
        self.use = ProcessUse(process.pid, system.beside())

    def remote(self, topic: str) -> str:
        """The name of a topic's copy."""
        return f"{self.alias}.{topic}{self._ending}"

    def check(self) -> bool:
        """Whether it has ended by itself, as it may. Raises with the log's name if it may not."""
        status = self.process.poll()
        if status or (status is not None and not self._ends):
            raise RuntimeError(f"The mirror exited with status {status}; see {self.process.log}")
        return status is not None


class Arena:
    """Two clusters of one broker each. One thread."""

    def __init__(
        self, kafka: KafkaRuntime, source: KafkaCluster, target: KafkaCluster, logs: Path
    ) -> None:
        self.source = source.bootstrap_servers
        self.target = target.bootstrap_servers
        self._kafka = kafka
        self._clusters = (source, target)
        self._logs = logs
        self._runs = 0
        self.link: LongLink | None = None
        """The way to the source; None: it is on this machine."""

    def broker_cpu_s(self) -> float:
        """User and system seconds of both brokers until now."""
        pids = [node.pid for cluster in self._clusters for node in cluster.nodes]
        return sum(ProcessUse(pid).now().cpu_s for pid in pids if pid is not None)

    @contextmanager
    def mirror(
        self,
        system: System,
        topics: str,
        codec: str = "none",
        existing: Mapping[str, int] | None = None,
        *,
        plain: bool = False,
        transforms: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Iterator[Mirror]:
        """Run a mirror of `topics` with a source alias nobody had before; all that it wrote is
        deleted afterwards. `existing`: topics, with their partitions, whose copies are created
        before the launch, so that creating them is not measured. `plain`:
        nothing is switched off. `transforms`, `properties`: of the flow, as in `flows.Flow`."""
        self._runs += 1
        alias = f"run{self._runs}"
        ending = RENAMED if transforms else ""
        for topic, partitions in (existing or {}).items():
            create_led_topic(self.target, f"{alias}.{topic}{ending}", partitions)
        given = flow_properties(
            alias,
            self.source,
            self.target,
            topics,
            {
                **system.tuning(alias, codec),
                **{f"{alias}->target.{key}": value for key, value in (transforms or {}).items()},
                **{
                    key.replace("{source}", alias): value
                    for key, value in (properties or {}).items()
                },
            },
            plain=plain,
        )
        name = f"{alias}-{system.name}"
        launched = SYSTEM_CLOCK.monotonic()
        process = system.start(self._kafka, given, self._logs / name, self._logs / f"{name}.log")
        try:
            yield Mirror(alias, system, process, launched, ending)
            process.stop(_STOP_S)
        finally:
            process.close()
            self._clean(alias)

    def _clean(self, alias: str) -> None:
        delete_topics(
            self.target,
            {t for t in topic_names(self.target) if t.startswith(f"{alias}.") or _internal(t)},
        )
        delete_topics(self.source, {t for t in topic_names(self.source) if _internal(t)})
        deadline = Deadline(_SETTLE_S)
        while not deadline.expired() and psutil.cpu_percent(0.5) > _SETTLED_LOAD_CPU:
            continue


def _internal(topic: str) -> bool:
    return topic.startswith("mm2-") or topic == "heartbeats"  # Those of aliases have their prefix.


def create_led_topic(
    servers: str, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> str:
    """Create a topic on a cluster of one broker, and wait until the broker leads all partitions:
    metadata says so long before, where there are many."""
    create_topic(servers, name=name, partitions=partitions, configs=configs)
    with EndOffsets(servers, name, partitions) as ends:
        wait_until(ends.led, _CREATE_S, f"leaders of {name}")
    return name


def delete_topics(servers: str, topics: set[str]) -> None:
    """Delete topics and wait until the cluster does not list them any more."""
    if not topics:
        return
    client = admin(servers)
    for topic, done in client.delete_topics(sorted(topics), operation_timeout=_DELETE_S).items():
        try:
            done.result(_DELETE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise RuntimeError(f"{topic} could not be deleted: {error}") from error
    wait_until(lambda: not topics & topic_names(servers), _DELETE_S, "deletion of topics")


@contextmanager
def open_arena(logs: Path) -> Iterator[Arena]:
    """Start the clusters; logs of brokers and mirrors are in `logs`, emptied before."""
    shutil.rmtree(logs, ignore_errors=True)
    with _open(logs, {}, {}) as arena:
        yield arena


@contextmanager
def open_far_arena(logs: Path) -> Iterator[Arena]:
    """As `open_arena`, with the source behind a link of `FAR_S`, whose broker leaves the sizes of
    socket buffers to its system. Needs the right to make network devices. Keeps what is in `logs`.
    """
    with LongLink(0.0) as link, _open(logs, _FAR_PROPERTIES, {1: link.place}) as arena:
        arena.link = link
        yield arena


@contextmanager
def _open(
    logs: Path, source_properties: Mapping[str, str], places: Mapping[int, Place]
) -> Iterator[Arena]:
    logs.mkdir(parents=True, exist_ok=True)
    kafka = kafka_runtime()
    with (
        KafkaCluster(
            name="source",
            kafka=kafka,
            jvm=_BROKER_JVM,
            properties={**_BROKER_PROPERTIES, **source_properties},
            places=places,
            logs=logs,
        ) as source,
        KafkaCluster(
            name="target", kafka=kafka, jvm=_BROKER_JVM, properties=_BROKER_PROPERTIES, logs=logs
        ) as target,
    ):
        yield Arena(kafka, source, target, logs)
