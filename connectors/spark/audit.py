"""The audit as a Spark job: a table of ranges in, a table of what was found in them out.

Spark only deals out ranges and gathers rows. Each task reads both clusters with the mirror's own
readers (`connectors.mirror.audit`); records never pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from connectors.mirror.audit.engines import AuditEngine, shares
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.audit.run import AuditSetup, RangeOutcome
from connectors.spark.arrow import arriving
from connectors.spark.audit_work import outcome_of, share_auditor, share_text
from connectors.spark.errors import job_errors

__all__ = ["AUDITED_RANGES", "audit_frame", "range_frame", "spark_engine"]

SHARES = StructType(
    [
        StructField("share", IntegerType(), nullable=False),
        StructField("ranges", StringType(), nullable=False),
    ]
)
"""`ranges`: the JSON of a share's ranges, for one task."""

AUDITED_RANGES = StructType(
    [
        StructField("range", StringType(), nullable=False),
        StructField("result", StringType(), nullable=True),
        StructField("error", StringType(), nullable=True),
    ]
)
"""One row for each range: itself and its `RangeResult`, as JSON, or why there is none."""


def spark_engine(session: SparkSession) -> AuditEngine:
    """Audits on this session's executors. Raises `SparkJobFailed` where the job cannot be run; a
    range that cannot be audited is an outcome."""

    def run(setup: AuditSetup, ranges: Sequence[AuditRange]) -> Iterator[RangeOutcome]:
        with job_errors("The audit"):
            # As tasks end, so that it is seen how far they are.
            for batch in arriving(audit_frame(range_frame(session, ranges), setup)):
                for row in batch.to_pylist():
                    yield outcome_of(row["range"], row["result"], row["error"])

    return run


def range_frame(session: SparkSession, ranges: Sequence[AuditRange]) -> DataFrame:
    """Ranges as SHARES, one partition for each share."""
    dealt = shares(ranges, session.sparkContext.defaultParallelism)
    rows = [(number, share_text(share)) for number, share in enumerate(dealt)]
    spread = session.sparkContext.parallelize(rows, max(1, len(rows)))
    return session.createDataFrame(spread, SHARES, verifySchema=False)


def audit_frame(frame: DataFrame, setup: AuditSetup) -> DataFrame:
    """SHARES -> AUDITED_RANGES. `setup` goes with the tasks, secrets included, as Spark's own Kafka
    options do."""
    # As it reads, it must not be run twice for one row.
    work = F.udf(share_auditor(setup), ArrayType(AUDITED_RANGES)).asNondeterministic()
    return frame.select(F.explode(work("ranges")).alias("audited")).select("audited.*")
