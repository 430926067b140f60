"""Copies shards of partitions on executors: the batch copier as a Spark job.

The job takes a table of shards and returns the ledger: the target offsets of each copied range, and
the progress of each partition. Records go from cluster to cluster through the Python process of a
task, never through the JVM.

`executor.py` is the part that runs on executors. The flow's client properties are sent inside the
job's function, like the options of Spark's own Kafka source: no plan, description or log shows
them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.spark.copy.executor import (
    AGAIN,
    COPIED,
    FIGURES,
    LOST,
    SHARD,
    TRANSACTION,
    CopyFlow,
    ShardLimits,
    shard_copier,
)
from connectors.spark.arrow import arriving
from connectors.spark.errors import job_errors

__all__ = ["SHARD_ROWS", "CopyFlow", "ShardResult", "copy_shards", "shard_frame"]

SHARD_ROWS = StructType(
    [
        StructField("shard", IntegerType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("topic", StringType(), nullable=True),
        StructField("partition", IntegerType(), nullable=True),
        StructField("source_start", LongType(), nullable=True),
        StructField("target_start", LongType(), nullable=True),
        StructField("records", LongType(), nullable=True),
        StructField("bytes", LongType(), nullable=True),
        StructField("position", LongType(), nullable=True),
        StructField("lost", LongType(), nullable=True),
        StructField("shallow_records", LongType(), nullable=True),
        StructField("shallow_batches", LongType(), nullable=True),
        StructField("level_batches", LongType(), nullable=True),
        StructField("high_watermark", LongType(), nullable=True),
        StructField("log_start", LongType(), nullable=True),
        StructField("newest_timestamp", LongType(), nullable=True),
        StructField("throttled_ms", LongType(), nullable=True),
        StructField("limited_by", StringType(), nullable=True),
        StructField("ms", DoubleType(), nullable=True),
        StructField("error", StringType(), nullable=True),
    ]
)
"""The rows that a shard returns, by `kind`. `topic` and `partition` are the source's.

* `copied`: `records` from `source_start` on are on the target from `target_start` on;
* `reached`: the final progress of a range (`RangeProgress`);
* `lost`: a `Loss`, as JSON in `error`;
* `transaction`: a committed transaction of `records`; the commit took `ms`;
* `shard`: the last row of a shard; `error`: why it ended before its ranges were done;
* `again`: the only row of a repeated run of a shard that must run once.
"""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The ledger of one shard. `error`: why it ended before its ranges were done; ranges copied
    before are included. If the executor was lost and Spark ran the shard again, only the last run's
    rows are here, so some records may have been copied twice. Under exactly-once, after an error or
    `again` the stored offsets show the progress, once the lane is claimed again."""

    shard: int
    copied: tuple[CopiedRange, ...]
    progress: tuple[RangeProgress, ...]
    error: str | None
    again: bool = False
    """Spark had run the shard before, so this run copied nothing (see `once`)."""
    losses: tuple[Loss, ...] = ()
    transactions: tuple[tuple[int, float], ...] = ()
    """Records of each committed transaction, and the milliseconds of its commit."""


def copy_shards(
    session: SparkSession,
    flow: CopyFlow,
    shards: Sequence[Sequence[SourceRange]],
    *,
    stall_s: float,
    most_s: float = math.inf,
    rate: float | None = None,
    once: bool = False,
    again_s: float = 0.0,
    claims: Sequence[ClaimedProducer] | None = None,
    paces: Sequence[FlowLimits] | None = None,
) -> Iterator[ShardResult]:
    """Copy these shards, one task each, and yield results as tasks end. No partition may be in two
    shards.

    `stall_s`: a shard without progress for this long ends with an error. `most_s`: a shard ends
    after this time without an error. `rate`: bytes per second of each shard. `once`: a repeated run
    of a shard (because its executor was lost) copies nothing and returns `again`, because the first
    run may still be writing. It does so after `again_s` seconds, so that with speculation the first
    run wins. `claims`: the lane of each shard, for a flow that writes exactly once; valid for this
    call only; requires `once`. `paces`: each shard's share of the flow's limits. Raises
    `SparkJobFailed` if the job cannot run. To end it early, cancel the thread's job group.
    """
    frame = shard_frame(
        session, flow, shards, ShardLimits(stall_s, most_s, rate, once, again_s), claims, paces
    )
    gathering = [_Gathering(number, shard) for number, shard in enumerate(shards)]
    with job_errors("The copy"):
        for batch in arriving(frame):
            for row in batch.to_pylist():
                result = gathering[row["shard"]].take(row)
                if result is not None:
                    yield result


def shard_frame(
    session: SparkSession,
    flow: CopyFlow,
    shards: Sequence[Sequence[SourceRange]],
    limits: ShardLimits,
    claims: Sequence[ClaimedProducer] | None = None,
    paces: Sequence[FlowLimits] | None = None,
) -> DataFrame:
    """Return SHARD_ROWS of these shards. Each run of the query copies them."""
    # Send large ones as a broadcast, as PySpark does with large functions.
    texts = [_text(shard) for shard in shards]
    # It writes to the target, so Spark must not run it twice for one row.
    copy = F.udf(
        shard_copier(flow, texts, limits, claims, paces), ArrayType(SHARD_ROWS), useArrow=False
    ).asNondeterministic()
    numbers = session.range(0, len(shards), 1, max(1, len(shards)))
    return numbers.select(F.explode(copy(F.col("id").cast("int"))).alias("row")).select("row.*")


def _text(ranges: Iterable[SourceRange]) -> str:
    return json.dumps([[*each.source, *each.target, each.start, each.end] for each in ranges])


class _Gathering:
    """Collects the rows of one shard until its last one."""

    def __init__(self, number: int, ranges: Sequence[SourceRange]) -> None:
        self._number = number
        self._ranges = {each.source: each for each in ranges}
        self._copied: list[CopiedRange] = []
        self._progress: list[RangeProgress] = []
        self._losses: list[Loss] = []
        self._transactions: list[tuple[int, float]] = []

    def take(self, row: Mapping[str, object]) -> ShardResult | None:
        if row["kind"] == AGAIN:
            return ShardResult(self._number, (), (), "Spark ran its task again", again=True)
        if row["kind"] == SHARD:
            return ShardResult(
                self._number,
                tuple(self._copied),
                tuple(self._progress),
                _text_or_none(row, "error"),
                losses=tuple(self._losses),
                transactions=tuple(self._transactions),
            )
        if row["kind"] == LOST:
            self._losses.append(Loss.of_json(str(row["error"])))
            return None
        if row["kind"] == TRANSACTION:
            self._transactions.append((_number(row, "records"), _milliseconds(row)))
            return None
        topic, partition = row["topic"], row["partition"]
        assert isinstance(topic, str)
        assert isinstance(partition, int)
        wanted = self._ranges[topic, partition]
        if row["kind"] == COPIED:
            self._copied.append(
                CopiedRange(
                    wanted.source,
                    wanted.target,
                    _number(row, "source_start"),
                    _number(row, "target_start"),
                    _number(row, "records"),
                )
            )
        else:
            figures = {name: _number(row, name) for name in FIGURES}
            self._progress.append(
                RangeProgress(
                    wanted,
                    error=_text_or_none(row, "error"),
                    limited_by=_text_or_none(row, "limited_by"),
                    **figures,
                )
            )
        return None


def _number(row: Mapping[str, object], name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


def _text_or_none(row: Mapping[str, object], name: str) -> str | None:
    value = row[name]
    return None if value is None else str(value)


def _milliseconds(row: Mapping[str, object]) -> float:
    value = row["ms"]
    assert isinstance(value, float)
    return value
