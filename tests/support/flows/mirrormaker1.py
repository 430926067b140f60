"""MirrorMaker 1 as child processes: ours, and Java's from the last release that had it; and
`kafka-consumer-offset-checker`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from tests.support.properties_files import properties_text
from tests.support.records.groups import committed
from tests.support.records.topics import create_topic, end_offsets, has_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.java import java_process

__all__ = [
    "COMMIT_MS",
    "COPY_S",
    "LAST_WITH_MM1",
    "Clusters",
    "Run",
    "files",
    "java_mm1",
    "mm1",
    "offset_checker",
    "offset_rows",
]

LAST_WITH_MM1 = "3.9.1"
COMMIT_MS = 500
COPY_S = 30.0
Run = Callable[..., GuardedProcess]
_TOOL = "kafka.tools.MirrorMaker"


def files(
    directory: Path,
    source: str,
    target: str,
    group: str,
    consumer: Mapping[str, str] | None = None,
    producer: Mapping[str, str] | None = None,
) -> list[str]:
    """Write the two files, and return the options that name them."""
    directory.mkdir(parents=True, exist_ok=True)
    first, second = directory / "consumer.properties", directory / "producer.properties"
    _write(
        first,
        {
            "bootstrap.servers": source,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": "1000",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            **(consumer or {}),
        },
    )
    _write(second, {"bootstrap.servers": target, **(producer or {})})
    return ["--consumer.config", str(first), "--producer.config", str(second)]


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text(properties_text(properties))


def mm1(options: Sequence[str], log: Path, commit_ms: int = COMMIT_MS) -> GuardedProcess:
    """Start `kafka-mirror-maker`."""
    command = [sys.executable, "-P", "-m", "api.cli.kafka_mirror_maker", *options]
    return GuardedProcess([*command, "--offset.commit.interval.ms", str(commit_ms)], log)


def java_mm1(kafka: KafkaRuntime, options: Sequence[str], log: Path) -> GuardedProcess:
    """Start Java's tool; `kafka` must be of `LAST_WITH_MM1`."""
    interval = ["--offset.commit.interval.ms", str(COMMIT_MS)]
    return java_process(kafka, _TOOL, [*options, *interval], log)


def offset_checker(*options: str) -> subprocess.CompletedProcess[str]:
    """Run `kafka-consumer-offset-checker` to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "api.cli.offset_checker", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def offset_rows(*options: str) -> list[list[str]]:
    """Its table without the heading."""
    return [line.split() for line in offset_checker(*options).stdout.splitlines()[1:]]


class Clusters:
    """Two clusters, and what a test makes on them."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, directory: Path) -> None:
        self.source, self.target = source.bootstrap_servers, target.bootstrap_servers
        self.directory = directory
        self.group = unique("mm1")

    def topic(self, partitions: int = 1, copies: int | None = None) -> str:
        """A topic of the source; also of the target where `copies` says with how many
        partitions."""
        name = unique("orders")
        create_topic(self.source, name=name, partitions=partitions)
        if copies is not None:
            create_topic(self.target, name=name, partitions=copies)
        return name

    def options(
        self,
        *more: str,
        consumer: dict[str, str] | None = None,
        producer: dict[str, str] | None = None,
        name: str = "files",
    ) -> list[str]:
        made = files(
            self.directory / name, self.source, self.target, self.group, consumer, producer
        )
        return [*made, *more]

    def wait_copied(self, topic: str, records: int, seconds: float = COPY_S) -> None:
        def copied() -> bool:
            return (
                has_topic(self.target, topic)
                and sum(end_offsets(self.target, topic).values()) >= records
            )

        wait_until(copied, seconds, f"{records} records of {topic}")

    def wait_committed(self, topic: str, offsets: dict[int, int], seconds: float = COPY_S) -> None:
        expected = {(topic, number): offset for number, offset in offsets.items()}
        wait_until(
            lambda: expected.items() <= committed(self.source, self.group).items(),
            seconds,
            f"{expected} in group {self.group}",
        )
