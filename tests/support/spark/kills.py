"""A flow on Spark whose processes are killed."""

from __future__ import annotations

import psutil

from deploy.brokers import GuardedProcess
from tests.support.flows.killed_mirrors import PROPERTIES
from tests.support.waiting import wait_until

__all__ = ["SPARK", "STOP_S", "WAIT_S", "kill", "kill_spark", "spark_processes"]


SPARK = {
    **PROPERTIES,
    "A->B.mirror.engine": "spark",
    "A->B.spark.master": "local[2]",
    "B.offset.flush.interval.ms": "700",
    "B.task.shutdown.graceful.timeout.ms": "20000",
}
# On a busy machine a session alone takes more than half a minute.
WAIT_S = 240.0
STOP_S = 40.0


def spark_processes(mirror: int, sign: str) -> list[psutil.Process]:
    """Of a mirror's Spark: the JVM (`SparkSubmit`), or the Python processes (`pyspark.daemon`)."""
    found = []
    for process in psutil.Process(mirror).children(recursive=True):
        try:
            if any(sign in part for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def kill(process: psutil.Process) -> None:
    """-9, if it has not ended by itself meanwhile."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def kill_spark(mirror: GuardedProcess, sign: str) -> None:
    """Its JVM, or its Python processes and their parent."""
    for process in wait_until(
        lambda: spark_processes(mirror.pid, sign), WAIT_S, f"a process of {sign}"
    ):
        kill(process)
