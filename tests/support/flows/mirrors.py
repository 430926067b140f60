"""Mirrors as child processes: ours and Java's, from one `mm2.properties`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.brokers import GuardedProcess, JvmOptions, KafkaRuntime
from tests.support.properties_files import properties_text
from tests.support.workers.java import SERVICES, java_process

__all__ = [
    "JAVA_MIRROR_MAKER",
    "java_mirror_maker",
    "mirror_maker",
    "mm2_properties",
]

JAVA_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"


def mm2_properties(
    source_servers: str, target_servers: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A flow `source->target` with short intervals and single replicas; `extra` wins."""
    return {
        "clusters": "source, target",
        "source.bootstrap.servers": source_servers,
        "target.bootstrap.servers": target_servers,
        "source->target.enabled": "true",
        "target->source.enabled": "false",
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.flush.interval.ms": "1000",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        # Most tests are of one thing; those of these turn them on.
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "emit.heartbeats.interval.seconds": "1",
        "consumer.auto.offset.reset": "earliest",
        **(extra or {}),
    }


def _write(properties: Mapping[str, str], directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "mm2.properties"
    path.write_text(properties_text(properties))
    return path


def mirror_maker(
    properties: Mapping[str, str], directory: Path, log: Path, *arguments: str
) -> GuardedProcess:
    """Start `connect-mirror-maker` with these properties; `directory` gets the file."""
    script = Path(sys.executable).with_name("connect-mirror-maker")
    return GuardedProcess([str(script), str(_write(properties, directory)), *arguments], log)


def java_mirror_maker(
    kafka: KafkaRuntime,
    properties: Mapping[str, str],
    directory: Path,
    log: Path,
    *arguments: str,
    jvm: JvmOptions | None = None,
) -> GuardedProcess:
    """Start Java's MirrorMaker 2 in dedicated mode with these properties."""
    services = {
        f"{alias.strip()}.{key}": value
        for alias in properties["clusters"].split(",")
        for key, value in SERVICES.items()
    }
    path = _write({**services, **properties}, directory)
    return java_process(kafka, JAVA_MIRROR_MAKER, [str(path), *arguments], log, jvm=jvm)
