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
from connectors.spark.drivers.python_tasks import task_function
from connectors.spark.errors import job_errors
from connectors.spark.slots import slots_of

__all__ = ["AUDITED_RANGES", "audit_frame", "spark_engine"]

AUDITED_RANGES = StructType(
    [
        StructField("range", StringType(), nullable=False),
        StructField("result", StringType(), nullable=True),
        StructField("error", StringType(), nullable=True),
    ]
)
"""One row per range: the range and its `RangeResult`, as JSON, or an error."""

_LEAST_TASKS = 2


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
    # Executors come: of a cluster that has just started, there may be none yet.
    tasks = max(_LEAST_TASKS, slots_of(session).running)
    shares = [share_text(share) for share in dealt(ranges, tasks)]
    work = task_function(session, share_auditor(setup, shares), ArrayType(AUDITED_RANGES))
    numbers = session.range(0, len(shares), 1, max(1, len(shares)))
    return numbers.select(F.explode(work(F.col("id").cast("int"))).alias("row")).select("row.*")
