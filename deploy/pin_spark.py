"""`python -m deploy.pin_spark VERSION ...`: write the lock files of Spark's Kafka source and of its
Avro functions, for these versions of Spark.

Resolves them with jgo, and writes the SHA-256 of each jar that Spark itself does not have. Review
the diff before committing it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from connectors.spark.connector_jars import avro_lock, connector_lock
from deploy.brokers.pin import line, resolved

__all__ = ["main"]

_CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
_BROUGHT = {
    _CONNECTOR[1],
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
}
_AVRO = ("org.apache.spark", "spark-avro_2.13")


def main(versions: Sequence[str]) -> int:
    """Write the lock files. Returns the exit status."""
    for version in versions:
        _pin("Spark's Kafka source", _CONNECTOR, _BROUGHT, version, connector_lock(version))
        _pin("Spark's Avro functions", _AVRO, {_AVRO[1]}, version, avro_lock(version))
    return 0


def _pin(
    what: str, package: tuple[str, str], brought: Collection[str], version: str, lock: Path
) -> None:
    with tempfile.TemporaryDirectory(prefix="spark-pin-") as repository:
        found = resolved([(*package, version)], Path(repository))
        lines = [line(each) for each in found if each.artifactId in brought]
    lock.write_text(
        f"# {what}, as Ivy downloads it for Spark {version}.\n"
        f"# Written by `python -m deploy.pin_spark {version}`.\n"
        "# One line each: group:artifact:version  SHA-256  size in bytes\n" + "".join(lines)
    )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("Usage: python -m deploy.pin_spark VERSION ...")
    sys.exit(main(sys.argv[1:]))
