"""The driver's JVM of an application that `spark-submit` started: it runs this Python process.

Its properties win over ours, because it was started with them. The properties of the driver's JVM
itself (its memory and options) come only from `spark-submit`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from connect.clock import Deadline

__all__ = ["SubmittedJvm", "submitted_properties"]

_OF_THE_JVM = ("spark.driver.extraJavaOptions", "spark.driver.memory", "spark.jars.ivy")

_lock = threading.Lock()
_PARENT = os.getppid()


def _gateway() -> Any:
    """Return the connection to the JVM. There is one, for the life of this process."""
    with _lock:
        if SparkContext._gateway is None:
            SparkContext._gateway = launch_gateway()  # type: ignore[no-untyped-call]
            SparkContext._jvm = SparkContext._gateway.jvm
        return SparkContext._gateway


def submitted_properties() -> dict[str, str]:
    """Return the `spark.*` of `spark-submit`, from its command line and files."""
    return dict(SparkConf(loadDefaults=True, _jvm=_gateway().jvm).getAll())


class SubmittedJvm:
    """Takes the place of a `SparkJvm`. It ends with this process, not before."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """`properties`: all of the session, with those of `spark-submit`."""
        self._properties = properties
        self.directory = Path(tempfile.mkdtemp(prefix="spark-driver-"))
        """A directory for files that are needed while the session runs. `close` deletes it."""
        self.gateway: Any = None

    def start(self, deadline: Deadline) -> None:
        """Connect to the JVM."""
        self.gateway = _gateway()

    @property
    def conf(self) -> SparkConf:
        """Return the configuration of a context in it."""
        conf = SparkConf(loadDefaults=False, _jvm=self.gateway.jvm)
        for key, value in self._properties.items():
            if key not in _OF_THE_JVM:
                conf.set(key, value)
        return conf

    @property
    def alive(self) -> bool:
        return os.getppid() == _PARENT

    def last_words(self) -> str:
        return "spark-submit has ended"

    def give_up(self) -> None:
        """Do nothing: the JVM runs already, so there is no start to cancel."""

    def close(self, timeout: float) -> None:
        """Delete the directory. May be called repeatedly."""
        shutil.rmtree(self.directory, ignore_errors=True)
