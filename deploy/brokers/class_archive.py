"""Builds an archive of Kafka's classes as the JVM has them in memory (class-data sharing).

With it, a broker starts with half of the CPU and a Connect worker with three quarters. All JVMs
with Kafka's jars as class path map the same file. Building takes half a minute per version of Java
and Kafka. Everything works without the archive too.

A broker and a Connect worker run until they serve, and list the classes that they load. A third JVM
loads these classes and dumps them.
"""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from deploy.brokers.cache import cache_directory
from deploy.brokers.cluster import KafkaCluster
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.brokers.process import GuardedProcess, complaints
from deploy.brokers.runtime import JvmOptions, KafkaRuntime

__all__ = ["make_class_archive"]

_WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
_START_S = 120.0
_DUMP_S = 300.0


def make_class_archive(kafka: KafkaRuntime) -> None:
    """Build the archive that `kafka` names, if it is missing. Raises `ProcessFailed`. Several
    processes may call it at once."""
    archive = kafka.class_archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
            folder = Path(directory)
            _dump(kafka, _loaded_classes(kafka, folder), folder).replace(archive)


def _loaded_classes(kafka: KafkaRuntime, folder: Path) -> Path:
    """Return a file that lists all classes that a broker and a worker load until they serve."""
    broker, worker, both = (folder / f"{name}.classes" for name in ("broker", "worker", "both"))
    with KafkaCluster(kafka=kafka, logs=folder, jvm=_noting(broker)) as cluster:
        _run_worker(kafka, cluster.bootstrap_servers, _noting(worker), folder)
    lines = [line for file in (broker, worker) for line in file.read_text().splitlines()]
    both.write_text("".join(f"{line}\n" for line in dict.fromkeys(lines)))
    return both


def _noting(classes: Path) -> JvmOptions:
    return JvmOptions(flags=(f"-XX:DumpLoadedClassList={classes}",))


def _run_worker(kafka: KafkaRuntime, servers: str, jvm: JvmOptions, folder: Path) -> None:
    lease = PortLease(cache_directory() / "ports")
    url = f"http://{LOOPBACK}:{lease.port}"
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    properties = {
        "bootstrap.servers": servers,
        "listeners": url,
        "group.id": "training",
        "key.converter": converter,
        "value.converter": converter,
    }
    for kind in ("config", "offset", "status"):
        properties[f"{kind}.storage.topic"] = kind
        properties[f"{kind}.storage.replication.factor"] = "1"
    file, log = folder / "worker.properties", folder / "worker.log"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    try:
        with GuardedProcess(kafka.command(_WORKER, [str(file)], jvm), log) as process:
            _wait_until_ready(process, f"{url}/connectors", log)
    finally:
        lease.close()


def _wait_until_ready(process: GuardedProcess, url: str, log: Path) -> None:
    deadline = Deadline(_START_S)
    while process.running() and not deadline.expired():
        try:
            with urlopen(url, timeout=deadline.remaining()):
                return
        except (URLError, OSError):
            _pause(process)
    raise ProcessFailed(f"A Connect worker did not start; its log {log} says:\n{complaints(log)}")


def _pause(process: GuardedProcess) -> None:
    """Sleep for a moment, less if the process ends."""
    try:
        process.wait(0.2)
    except DeadlineExceeded:
        return


def _dump(kafka: KafkaRuntime, classes: Path, folder: Path) -> Path:
    archive, log = folder / "kafka.jsa", folder / "dump.log"
    command = [
        str(kafka.java),
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={archive}",
        "-cp",
        kafka.class_path,
    ]
    with GuardedProcess(command, log) as process:
        status = process.wait(_DUMP_S)
    if status != 0 or not archive.exists():
        raise ProcessFailed(f"Cannot archive Kafka's classes; Java says:\n{complaints(log)}")
    return archive
