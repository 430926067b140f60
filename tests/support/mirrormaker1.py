"""MirrorMaker 1 as child processes: ours, and Java's from the last release that had it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.brokers import GuardedProcess, KafkaRuntime
from tests.support.java import java_process
from tests.support.properties_files import properties_text

__all__ = ["COMMIT_MS", "LAST_WITH_MM1", "files", "java_mm1", "mm1"]

LAST_WITH_MM1 = "3.9.1"
COMMIT_MS = 500
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
