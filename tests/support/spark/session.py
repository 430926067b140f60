"""The Spark session of the tests: the product's own, one for all, with two cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from connectors.mirror.spark.tables import table_frame
from connectors.spark import session as sessions
from connectors.spark.session import SharedSession
from tests.support.spark.connect_server import REMOTE_VARIABLE
from tests.support.waiting import wait_until

__all__ = [
    "QUICK_JVM",
    "SMALL_EXECUTORS",
    "SPARK",
    "bare_python",
    "frame",
    "of_flow",
    "ready_session",
    "session_on",
]

# Tests use the session without a lease.
_NO_LEASE = {"mirror.spark.idle.timeout.ms": "0"}
_REMOTE = os.environ.get(REMOTE_VARIABLE)
SPARK = {
    **({"spark.remote": _REMOTE} if _REMOTE else {"spark.master": "local[2]"}),
    "spark.sql.shuffle.partitions": "2",
    **_NO_LEASE,
}
SMALL_EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
"""On a cluster of this machine."""
QUICK_JVM = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
"""For executors that live for seconds."""
START_S = 120.0


def ready_session(
    shared: SharedSession,
    properties: Mapping[str, str] = SPARK,
    *,
    kafka: bool = False,
    frames: bool = False,
) -> SparkSession:
    """The session, when it is there."""
    lease = shared.acquire("tests", properties, kafka=kafka, frames=frames)
    try:
        found = wait_until(lambda: lease.session, START_S, "Spark is ready")
    finally:
        lease.release()
    assert found is not None
    return found


@contextmanager
def session_on(properties: Mapping[str, str], *, frames: bool = False) -> Iterator[SparkSession]:
    """A session with other properties. PySpark has one at a time in a process, so that of the other
    tests ends; they get a new one."""
    with sessions._shared_lock:
        before, sessions._shared = sessions._shared, None
    if before is not None:
        before.close()
    shared = SharedSession()
    try:
        yield ready_session(shared, {**_NO_LEASE, **properties}, frames=frames)
    finally:
        shared.close()


def of_flow(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties of Spark as those of the flow A->B in an mm2.properties."""
    return {f"A->B.{key}": value for key, value in properties.items()}


def bare_python(directory: Path) -> Path:
    """A folder with a Python of this version that has no packages at all."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=START_S
    )
    return directory / "bin"


def frame(session: SparkSession, schema: StructType, rows: Iterable[Sequence[object]]) -> DataFrame:
    """Rows as tuples in the schema's order."""
    return table_frame(session, schema, rows)
