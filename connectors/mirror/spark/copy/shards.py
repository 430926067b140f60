"""Copies shards of partitions on executors: the batch copier as a Spark job.

A table of shards goes in, the ledger comes out: where each range landed, and how far each partition
is. Records go from cluster to cluster through the Python process of a task, never through the JVM.

What executors do is in `executor.py`. Client properties of the flow travel inside the function of
the job, as with Spark's own Kafka options: no plan, description or log shows them.
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
from connectors.mirror.copy.range_copier import CopiedRange, RangeProgress, SourceRange
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
"""What a shard gives back, by `kind`. `topic` and `partition` are the source's.

* `copied`: `records` from `source_start` on are on the target from `target_start` on;
* `reached`: the last word about a range: see `RangeProgress`;
* `lost`: a `Loss`, as JSON in `error`;
* `transaction`: one of `records` was committed, which took `ms`;
* `shard`: the last row of a shard; `error`: why it ended before its ranges were done;
* `again`: the only row of a shard that Spark ran again, where it is to be run once.
"""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The ledger of one shard. `error`: why it ended before its ranges were done; what was copied
    until then is here all the same. A shard whose executor was lost, and that Spark ran again, has
    only the last run's: it may have copied some of it twice. Under exactly-once an error, or
    `again`, means that what is stored says how far it came, once its lane is claimed anew."""

    shard: int
    copied: tuple[CopiedRange, ...]
    progress: tuple[RangeProgress, ...]
    error: str | None
    again: bool = False
    """Spark had run the shard before, so nothing was copied: see `once`."""
    losses: tuple[Loss, ...] = ()
    transactions: tuple[tuple[int, float], ...] = ()
    """Records of each transaction that was committed, and the milliseconds that this took."""


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
    """Copy these shards, one task each; results come as tasks end. No partition is in two shards.

    `stall_s`: a shard in which nothing moves for so long ends with an error; `most_s`: it ends
    after so long wherever it is, without one. `rate`: bytes a second that each shard keeps to.
    `once`: where Spark runs a shard again, as its executor was lost, that run copies nothing and
    says so: the first one may still be writing. It does so after `again_s` seconds: where Spark
    speculates, the first one is to win. `claims`: the lane of each shard, for a flow that
    writes exactly once, and only for this call; goes with `once`. `paces`: what each shard has of
    the flow's limits. Raises `SparkJobFailed` where the
    job cannot be run. To end it early, cancel the thread's job group.
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
    """SHARD_ROWS of these shards; each run of the query copies them."""
    # Large ones travel as a broadcast, as PySpark does with large functions.
    texts = [_text(shard) for shard in shards]
    # As it writes, it must not be run twice for one row.
    copy = F.udf(
        shard_copier(flow, texts, limits, claims, paces), ArrayType(SHARD_ROWS), useArrow=False
    ).asNondeterministic()
    numbers = session.range(0, len(shards), 1, max(1, len(shards)))
    return numbers.select(F.explode(copy(F.col("id").cast("int"))).alias("row")).select("row.*")


def _text(ranges: Iterable[SourceRange]) -> str:
    return json.dumps([[*each.source, *each.target, each.start, each.end] for each in ranges])


class _Gathering:
    """The rows of one shard, until its last one."""

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
