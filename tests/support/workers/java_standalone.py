"""A standalone worker of Java's Kafka Connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.brokers import JvmOptions, KafkaRuntime
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.properties_files import properties_text
from tests.support.waiting import wait_until
from tests.support.workers.java import SERVICES, java_process
from tests.support.workers.workers import is_healthy

__all__ = ["java_standalone", "worker_properties"]


_MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
_START_S = 120.0


def worker_properties(servers: str, directory: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "offset.storage.file.filename": str(directory / "offsets"),
        "offset.flush.interval.ms": "500",
    }


@contextmanager
def java_standalone(
    kafka: KafkaRuntime, properties: Mapping[str, str], directory: Path, log: Path
) -> Iterator[str]:
    """The URL of a standalone worker of Java."""
    lease = PortLease(cache_directory() / "ports")
    url = f"http://{LOOPBACK}:{lease.port}"
    path = directory / "java.properties"
    lines = {**SERVICES, **properties, "listeners": url}
    path.write_text(properties_text(lines))
    try:
        with java_process(kafka, _MAIN, [str(path)], log, jvm=JvmOptions()) as process:
            wait_until(
                lambda: process.running() and is_healthy(url), _START_S, "start of Java's worker"
            )
            yield url
            process.stop(30.0)
    finally:
        lease.close()
