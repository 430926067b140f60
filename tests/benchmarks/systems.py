"""The systems that are compared, each with the configuration it runs with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.brokers import GuardedProcess, JvmOptions, KafkaRuntime
from tests.support.flows.mirrors import java_mirror_maker, mirror_maker
from tests.support.flows.transformed import READ_JSON
from tests.support.properties_files import properties_text
from tests.support.workers.java import with_class

__all__ = [
    "CONFLUENT",
    "JAVA",
    "JAVA_SMALL",
    "JAVA_TUNED",
    "OURS",
    "OURS_WORKERS",
    "SYSTEMS",
    "USUAL_SYSTEMS",
    "System",
    "flow_properties",
    "rotated",
    "with_tasks",
]

JAVA, JAVA_TUNED, OURS = "java", "java-tuned", "ours"
JAVA_SMALL, CONFLUENT = "java-512m", "confluent"
OURS_WORKERS = "ours-workers"
USUAL_SYSTEMS = (JAVA, JAVA_TUNED, OURS)
"""Those that run if none are named."""

# What connect-mirror-maker.sh of Kafka 4.3.1 runs with: KAFKA_HEAP_OPTS and
# KAFKA_JVM_PERFORMANCE_OPTS.
_JVM = JvmOptions(
    heap="2g",
    quick=False,
    flags=(
        "-Xms256m",
        "-server",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
    ),
)


@dataclass(frozen=True, slots=True)
class System:
    """`tuning`: properties on top of the flow's, by the source's alias and the topics' codec.
    `beside`: processes that work for it and are not its children. `ends`: by itself, when all is
    copied. `keeps_times`: the records' timestamps; `keeps_values`: their values."""

    name: str
    words: str
    start: Callable[[KafkaRuntime, Mapping[str, str], Path, Path], GuardedProcess]
    tuning: Callable[[str, str], Mapping[str, str]]
    beside: Callable[[], Sequence[int]] = tuple
    ends: bool = False
    keeps_times: bool = True
    keeps_values: bool = True


_COPY_ONLY = {
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}


def flow_properties(
    alias: str,
    source: str,
    target: str,
    topics: str,
    extra: Mapping[str, str],
    *,
    plain: bool = False,
) -> dict[str, str]:
    """The mm2.properties of one run: the flow `alias->target`, MirrorMaker 2's defaults, and, if it
    is not `plain`, only what has to do with copying. A new `alias` makes a copy from the start into
    topics of its own.
    """
    return {
        "clusters": f"{alias}, target",
        f"{alias}.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        f"{alias}->target.enabled": "true",
        f"target->{alias}.enabled": "false",
        f"{alias}->target.topics": topics,
        "tasks.max": "2",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        **({} if plain else _COPY_ONLY),
        **extra,
    }


def _start_java(
    kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    return _java(kafka, properties, directory, log, _JVM)


def _start_small_java(
    kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    return _java(kafka, properties, directory, log, replace(_JVM, heap="512m"))


def _java(
    kafka: KafkaRuntime,
    properties: Mapping[str, str],
    directory: Path,
    log: Path,
    jvm: JvmOptions,
) -> GuardedProcess:
    if READ_JSON.stem in properties.values():
        classes = directory / "classes"
        classes.mkdir(parents=True)
        kafka = with_class(kafka, READ_JSON, classes)
    return java_mirror_maker(kafka, properties, directory, log, jvm=jvm)


def _start_confluent(
    _kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "mm2.properties"
    path.write_text(properties_text(properties))
    program = [sys.executable, "-m", "tests.benchmarks.confluent_copier", str(path)]
    return GuardedProcess(program, log)


def _codec_of_source(_alias: str, codec: str) -> dict[str, str]:
    return {"target.producer.compression.type": codec}


def _start_ours(
    _kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    return mirror_maker(properties, directory, log)


def _start_workers(
    _kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> GuardedProcess:
    return mirror_maker(properties, directory, log, "--workers", "2")


def _untuned(_alias: str, _codec: str) -> dict[str, str]:
    return {}


def _tuned(alias: str, codec: str) -> dict[str, str]:
    """The most that its configuration offers for throughput, order kept, and the codec of the
    source kept as well: without it, Java writes uncompressed."""
    return {
        f"{alias}.consumer.max.poll.records": "5000",
        f"{alias}.consumer.max.partition.fetch.bytes": "8388608",
        f"{alias}.consumer.receive.buffer.bytes": "-1",
        "target.producer.batch.size": "262144",
        "target.producer.linger.ms": "20",
        "target.producer.buffer.memory": "134217728",
        "target.producer.max.request.size": "8388608",
        "target.producer.send.buffer.bytes": "-1",
        "target.producer.enable.idempotence": "true",
        "target.producer.max.in.flight.requests.per.connection": "5",
        "target.producer.compression.type": codec,
    }


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(
            JAVA, "Java MirrorMaker 2 4.3.1, tasks.max=2, default clients", _start_java, _untuned
        ),
        System(
            JAVA_TUNED,
            "the same with "
            + ", ".join(
                f"{key}={value}" for key, value in _tuned("source", "<as in the source>").items()
            ),
            _start_java,
            _tuned,
        ),
        System(OURS, "connect-mirror-maker, tasks.max=2, default clients", _start_ours, _untuned),
        System(
            OURS_WORKERS,
            "as ours, with --workers 2: a process for each task",
            _start_workers,
            _untuned,
        ),
        System(JAVA_SMALL, "as java, with a heap of 512 MB", _start_small_java, _untuned),
        System(
            CONFLUENT,
            "a program on confluent-kafka: consume and produce, tuned, at least once",
            _start_confluent,
            _codec_of_source,
        ),
    )
}


def rotated(systems: Sequence[System], turn: int) -> list[System]:
    """The order of this round: every system comes first equally often, because brokers and disks
    are not the same for the first and the last."""
    first = turn % len(systems)
    return [*systems[first:], *systems[:first]]


def with_tasks(system: System, tasks: int) -> System:
    """The system with this `tasks.max`, which its name tells."""
    name = f"{system.name}-{tasks}"
    words = system.words.replace("tasks.max=2", f"tasks.max={tasks}")

    def tuning(alias: str, codec: str) -> Mapping[str, str]:
        return {**system.tuning(alias, codec), "tasks.max": str(tasks)}

    return replace(system, name=name, words=words, tuning=tuning)
