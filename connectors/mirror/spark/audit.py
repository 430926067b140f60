"""The audit as a Spark job: takes ranges and returns a table of findings.

Spark only distributes ranges and collects rows. Each task reads both clusters with the mirror's own
clients (`connectors.mirror.audit`), so records never pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome
from connectors.mirror.audit.engines import AuditEngine
from connectors.mirror.audit.engines import shares as dealt
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.spark.audit_executor import outcome_of, share_auditor, share_text
from connectors.spark.arrow import arriving
from connectors.spark.errors import job_errors

__all__ = ["AUDITED_RANGES", "audit_frame", "spark_engine"]

AUDITED_RANGES = StructType(
    [
        StructField("range", StringType(), nullable=False),
        StructField("result", StringType(), nullable=True),
        StructField("error", StringType(), nullable=True),
    ]
)
"""One row per range: the range and its `RangeResult`, as JSON, or an error."""


def spark_engine(session: SparkSession) -> AuditEngine:
    """Return an engine that audits on this session's executors. Raises `SparkJobFailed` if the job
    cannot run; a range that cannot be audited is an outcome with an error."""

    def run(setup: AuditSetup, ranges: Sequence[AuditRange]) -> Iterator[RangeOutcome]:
        with job_errors("The audit"):
            # In the order in which tasks end, to show the progress.
            for batch in arriving(audit_frame(session, setup, ranges)):
                for row in batch.to_pylist():
                    yield outcome_of(row["range"], row["result"], row["error"])

    return run


def audit_frame(
    session: SparkSession, setup: AuditSetup, ranges: Sequence[AuditRange]
) -> DataFrame:
    """Return AUDITED_RANGES of these ranges. Each run of the query audits them. `setup` is sent to
    tasks with its secrets, like the options of Spark's own Kafka source."""
    # Send large ones as a broadcast, as PySpark does with large functions.
    shares = [share_text(share) for share in dealt(ranges, session.sparkContext.defaultParallelism)]
    # It reads the clusters, so Spark must not run it twice for one row.
    work = F.udf(share_auditor(setup, shares), ArrayType(AUDITED_RANGES)).asNondeterministic()
    numbers = session.range(0, len(shares), 1, max(1, len(shares)))
    return numbers.select(F.explode(work(F.col("id").cast("int"))).alias("row")).select("row.*")
