"""Copies shards of partitions on executors: the batch copier as a Spark job.

A table of shards goes in, the ledger comes out: where each range landed, and how far each partition
is. Records go from cluster to cluster through the Python process of a task, never through the JVM.

Executors build the copier from the flow's client properties, which travel inside the job's function
as with Spark's own Kafka options: no plan, description or log shows them. A Python process keeps
its copier for the next shard of the flow, with its connections and its producer ids.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from connect.errors import ConnectError
from connectors.mirror.config_source import SourceConfig
from connectors.mirror.copy.ranges import (
    CopiedRange,
    RangeCopier,
    RangeProgress,
    SourceRange,
)
from connectors.mirror.source_task import engine_settings
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
        StructField("error", StringType(), nullable=True),
    ]
)
"""What a shard gives back, by `kind`. `topic` and `partition` are the source's.

* `copied`: `records` from `source_start` on are on the target from `target_start` on;
* `reached`: the last word about a range: see `RangeProgress`;
* `shard`: the last row of a shard; `error`: why it ended before its ranges were done.
"""

_COPIED, _REACHED, _SHARD = "copied", "reached", "shard"


@dataclass(frozen=True, slots=True)
class CopyFlow:
    """What executors build the copier from: the connector's properties, and the Java properties of
    its consumer and its producer. They hold secrets."""

    connector: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)

    def key(self) -> str:
        """The same for the same properties; tells none of them."""
        plain = [sorted(each.items()) for each in (self.connector, self.consumer, self.producer)]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The ledger of one shard. `error`: why it ended before its ranges were done; what was copied
    until then is here all the same. A shard whose executor was lost, and that Spark ran again, has
    only the last run's: it may have copied some of it twice."""

    shard: int
    copied: tuple[CopiedRange, ...]
    progress: tuple[RangeProgress, ...]
    error: str | None


def copy_shards(
    session: SparkSession,
    flow: CopyFlow,
    shards: Sequence[Sequence[SourceRange]],
    *,
    stall_s: float,
    most_s: float = math.inf,
) -> Iterator[ShardResult]:
    """Copy these shards, one task each; results come as tasks end. No partition is in two shards.

    `stall_s`: a shard in which nothing moves for so long ends with an error; `most_s`: it ends
    after so long wherever it is, without one. Raises `SparkJobFailed` where the job cannot be run.
    To end it early, cancel the thread's job group.
    """
    frame = shard_frame(session, flow, shards, stall_s=stall_s, most_s=most_s)
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
    *,
    stall_s: float,
    most_s: float = math.inf,
) -> DataFrame:
    """SHARD_ROWS of these shards; each run of the query copies them."""
    # Large ones travel as a broadcast, as PySpark does with large functions.
    texts = [_text(shard) for shard in shards]

    def work(number: int) -> list[tuple[object, ...]]:
        return _run(flow, number, _ranges(texts[number]), stall_s, most_s)

    # As it writes, it must not be run twice for one row.
    copy = F.udf(work, ArrayType(SHARD_ROWS)).asNondeterministic()
    numbers = session.range(0, len(shards), 1, max(1, len(shards)))
    return numbers.select(F.explode(copy(F.col("id").cast("int"))).alias("row")).select("row.*")


def _text(ranges: Iterable[SourceRange]) -> str:
    return json.dumps([[*each.source, *each.target, each.start, each.end] for each in ranges])


def _ranges(text: str) -> list[SourceRange]:
    return [SourceRange((a, b), (c, d), start, end) for a, b, c, d, start, end in json.loads(text)]


class _Gathering:
    """The rows of one shard, until its last one."""

    def __init__(self, number: int, ranges: Sequence[SourceRange]) -> None:
        self._number = number
        self._ranges = {each.source: each for each in ranges}
        self._copied: list[CopiedRange] = []
        self._progress: list[RangeProgress] = []

    def take(self, row: Mapping[str, object]) -> ShardResult | None:
        if row["kind"] == _SHARD:
            error = row["error"]
            return ShardResult(
                self._number,
                tuple(self._copied),
                tuple(self._progress),
                None if error is None else str(error),
            )
        topic, partition = row["topic"], row["partition"]
        assert isinstance(topic, str)
        assert isinstance(partition, int)
        wanted = self._ranges[topic, partition]
        if row["kind"] == _COPIED:
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
            figures = {name: _number(row, name) for name in _FIGURES}
            error = row["error"]
            self._progress.append(
                RangeProgress(wanted, error=None if error is None else str(error), **figures)
            )
        return None


def _number(row: Mapping[str, object], name: str) -> int:
    value = row[name]
    assert isinstance(value, int)
    return value


_FIGURES = (
    "position",
    "bytes",
    "lost",
    "records",
    "shallow_records",
    "shallow_batches",
    "level_batches",
    "high_watermark",
    "log_start",
    "newest_timestamp",
)

_LOG = logging.getLogger(__name__)

# On executors.

_copiers: dict[str, RangeCopier] = {}
_copiers_lock = threading.Lock()
_MOST_KEPT = 2
"""Copiers that a Python process keeps: flows whose shards take turns in it."""


def _take_copier(flow: CopyFlow, key: str) -> RangeCopier:
    with _copiers_lock:
        kept = _copiers.pop(key, None)
    if kept is not None:
        return kept
    config = SourceConfig.from_properties(flow.connector)
    return RangeCopier(engine_settings(config, flow.consumer, flow.producer))


def _give_back(copier: RangeCopier, key: str) -> None:
    old: list[RangeCopier] = []
    if copier.usable:
        with _copiers_lock:
            before = _copiers.pop(key, None)
            _copiers[key] = copier
            old += [] if before is None else [before]
            while len(_copiers) > _MOST_KEPT:
                old.append(_copiers.pop(next(iter(_copiers))))
    else:
        old.append(copier)
    for each in old:
        each.close()


def _run(
    flow: CopyFlow, number: int, ranges: Sequence[SourceRange], stall_s: float, most_s: float
) -> list[tuple[object, ...]]:
    """SHARD_ROWS of one shard. Errors are rows: Spark would run the shard again for them."""
    lines: list[CopiedRange] = []
    last: list[RangeProgress] = []

    def note(progress: Sequence[RangeProgress], copied: Sequence[CopiedRange]) -> None:
        lines.extend(copied)
        last[:] = progress

    error: str | None = None
    try:
        key = flow.key()
        copier = _take_copier(flow, key)
        try:
            never = threading.Event()
            # Without reports in between: nobody would hear them.
            copier.copy(ranges, note, stop=never, stall_s=stall_s, report_s=math.inf, most_s=most_s)
        finally:
            _give_back(copier, key)
    except ConnectError as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 - the top of a task, which Spark would repeat
        _LOG.exception("a shard failed unexpectedly")
        error = f"{type(failure).__name__}: {failure}"
    rows = [_copied_row(line) for line in lines] + [_reached_row(progress) for progress in last]
    rows.append({"kind": _SHARD, "error": error})
    names = SHARD_ROWS.names
    return [tuple({**row, "shard": number}.get(name) for name in names) for row in rows]


def _copied_row(line: CopiedRange) -> dict[str, object]:
    return {
        "kind": _COPIED,
        "topic": line.source[0],
        "partition": line.source[1],
        "source_start": line.source_start,
        "target_start": line.target_start,
        "records": line.records,
    }


def _reached_row(progress: RangeProgress) -> dict[str, object]:
    source = progress.range.source
    return {
        "kind": _REACHED,
        "topic": source[0],
        "partition": source[1],
        "error": progress.error,
        **{name: getattr(progress, name) for name in _FIGURES},
    }
