"""The Spark session of the tests: the product's own, one for all, with two cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from connectors.spark.session import SharedSession
from connectors.spark.tables import arrow_table
from tests.support.waiting import wait_until

__all__ = ["SPARK", "frame", "ready_session"]

SPARK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    # Tests use the session without a lease.
    "mirror.spark.idle.timeout.ms": "0",
}
START_S = 120.0


def ready_session(shared: SharedSession, *, kafka: bool = False) -> SparkSession:
    """The session, when it is there."""
    lease = shared.acquire("tests", SPARK, kafka=kafka)
    try:
        found = wait_until(lambda: lease.session, START_S, "Spark is ready")
    finally:
        lease.release()
    assert found is not None
    return found


def frame(session: SparkSession, schema: StructType, rows: Iterable[Sequence[object]]) -> DataFrame:
    """Rows as tuples in the schema's order."""
    return session.createDataFrame(arrow_table(schema, rows))
