"""The versions of PySpark that this program works with, and the Spark that is installed.

Reads files only. Does not import PySpark, so that a worker without Spark jobs does not load it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

__all__ = [
    "PYSPARK_REQUIREMENT",
    "SUPPORTED",
    "avro_functions",
    "kafka_connector",
    "pyspark_version",
    "table_package",
    "unsuitable_version",
]

PYSPARK_REQUIREMENT = "pyspark>=4.0.0,<4.2"
"""As pip reads it. Both 4.0 and 4.1 are tested."""

SUPPORTED = ("4.0.", "4.1.")
"""How the versions of Spark begin that this program works with."""

_TABLE_PACKAGES = {
    ("delta", "4.0"): "io.delta:delta-spark_2.13:4.0.0",
    ("delta", "4.1"): "io.delta:delta-spark_4.1_2.13:4.1.0",
    ("iceberg", "4.0"): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",
    ("iceberg", "4.1"): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
}
_VERSION = re.compile(r"""^__version__\b[^=]*=\s*["']([^"']+)["']""", re.MULTILINE)
_CORE = re.compile(r"spark-core_[\d.]+-(.+)\.jar")


def pyspark_version() -> str | None:
    """Return `pyspark.__version__`, or None if PySpark is not installed."""
    try:
        found = importlib.util.find_spec("pyspark")
    except ImportError:
        return None
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    version = _VERSION.search(text)
    return None if version is None else version.group(1)


def kafka_connector() -> str:
    """Return the Maven coordinates of Spark's Kafka source, in the same version as PySpark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark_version()}"


def avro_functions() -> str:
    """Return the Maven coordinates of Spark's Avro functions, in the same version as PySpark."""
    return f"org.apache.spark:spark-avro_2.13:{pyspark_version()}"


def table_package(name: str) -> str:
    """Return the Maven coordinates of the table format `delta` or `iceberg` for this version of
    Spark. Those for 4.0 are tested."""
    minor = ".".join((pyspark_version() or "").split(".")[:2])
    return _TABLE_PACKAGES[name, minor]


def unsuitable_version() -> str | None:
    """Return why the installed Spark cannot be used, with the remedy; None if it can, or if there
    is no PySpark."""
    version = pyspark_version()
    if version is None:
        return None
    if not version.startswith(SUPPORTED):
        return (
            f"PySpark {version} is installed, but this program needs 4.0 or 4.1: run "
            f"pip install '{PYSPARK_REQUIREMENT}'"
        )
    home = os.environ.get("SPARK_HOME")
    other = None if home is None else _version_in(Path(home))
    if other is None or other == version:
        return None
    return (
        f"SPARK_HOME={home} has Spark {other}, but the installed PySpark is {version}: unset "
        f"SPARK_HOME, or set it to a Spark {version}"
    )


def _version_in(home: Path) -> str | None:
    """Return the version of a Spark installation; None if it has no jars."""
    for jar in (home / "jars").glob("spark-core_*.jar"):
        found = _CORE.fullmatch(jar.name)
        if found is not None:
            return found.group(1)
    return None
