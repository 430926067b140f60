"""Checks that Spark's Kafka source and Avro functions are those that this program was tested with.

Ivy downloads it when the JVM starts, and knows no SHA-256. So its jars are compared with those of
a lock file before anything runs that could use them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect.errors import ConfigError
from connect.pinned_jars import PinnedJar, read_lock
from connectors.spark.versions import avro_functions, kafka_connector, pyspark_version

__all__ = ["avro_lock", "check_connector_jars", "connector_lock"]

log = logging.getLogger(__name__)

_PACKAGES, _IVY = "spark.jars.packages", "spark.jars.ivy"
_LOCKS = Path(__file__).with_name("locks")


def connector_lock(version: str) -> Path:
    """Return the path of the Kafka source's lock file for this version of Spark, whether or not it
    exists."""
    return _LOCKS / f"kafka-connector-{version}.lock"


def avro_lock(version: str) -> Path:
    """Return the path of the lock file of the Avro functions, as `connector_lock`."""
    return _LOCKS / f"spark-avro-{version}.lock"


def check_connector_jars(props: Mapping[str, str]) -> None:
    """Raise `ConfigError` if a jar that Ivy downloaded for Spark's Kafka source or Avro functions
    is not the pinned one. `props`: of a session whose JVM has started. For a version of Spark that
    is not pinned this only logs a warning."""
    packages, version = props.get(_PACKAGES, "").split(","), pyspark_version() or ""
    if kafka_connector() in packages:
        _check_package(kafka_connector(), connector_lock(version), props)
    if avro_functions() in packages:
        _check_package(avro_functions(), avro_lock(version), props)


def _check_package(package: str, lock: Path, props: Mapping[str, str]) -> None:
    if not lock.exists():
        log.warning(
            "The jars of %s are used unchecked: no SHA-256 is known of them for this "
            "version. Use a version of Spark that docs/explanation/spark.md lists to "
            "have them checked",
            package,
        )
        return
    folder = Path(props[_IVY]).expanduser() / "jars"
    pinned = {folder / f"{jar.group}_{jar.file_name}": jar for jar in _read(lock)}
    # Another package of the user may have brought a newer version of one.
    there = {path: jar for path, jar in pinned.items() if path.exists()}
    if not there:
        raise ConfigError(
            f"{package} cannot be checked: none of its jars is in {folder}",
            key=_PACKAGES,
        )
    for path, jar in there.items():
        _check(jar, path)


def _read(lock: Path) -> Sequence[PinnedJar]:
    return read_lock(lock.read_text(encoding="utf-8"))


def _check(jar: PinnedJar, path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise ConfigError(
            f"{path} is not the {jar.file_name} that is pinned: its SHA-256 is {found} instead of "
            f"{jar.sha256}. Delete {path.parents[1]} to have it downloaded again; if that does not "
            f"help, the repository delivers another file",
            key=_PACKAGES,
        )
