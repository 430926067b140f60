"""The Spark job of a shard with `mirror.transform`: its plan, and what the plan may contain.

The job is one task: a reader, the transformation, and the copier. A transformation looks at one
record at a time, beside tables that are small enough to be broadcast. A plan that needs several
records at once (groups, windows, distinct, order, limits), or moves records to other tasks, is
refused: a shard is an arbitrary slice of a partition, so its result would be arbitrary, too. Runs
on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyspark  # noqa: F401 - before its parts
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.config.transforms import wrong_transform
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.spark.copy.executor import CopyFlow, ShardLimits, ShardResult
from connectors.mirror.spark.copy.shards import shard_result
from connectors.mirror.spark.transform.executor import (
    TransformedShard,
    record_reader,
    row_copier,
)
from connectors.mirror.spark.transform.function import FrameTransform, load_transform
from connectors.mirror.spark.transform.records import COLUMNS, IDENTITY, RECORDS_SCHEMA
from connectors.spark.arrow import collect, map_batches
from connectors.spark.errors import first_line, job_errors

__all__ = ["FlowTransform"]

_TYPES = {
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "offset": ("bigint",),
    "timestamp": ("timestamp",),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
}
"""The types that a returned column may have; strings are written as UTF-8."""

_PERMITTED = frozenset(
    {
        "AdaptiveSparkPlanExec",
        "ArrowEvalPythonExec",
        "BatchEvalPythonExec",
        "BroadcastHashJoinExec",
        "BroadcastNestedLoopJoinExec",
        "CoalesceExec",
        "ColumnarToRowExec",
        "EmptyRelationExec",
        "FilterExec",
        "GenerateExec",
        "InputAdapter",
        "LocalTableScanExec",
        "MapInArrowExec",
        "MapInPandasExec",
        "ProjectExec",
        "PythonMapInArrowExec",
        "RangeExec",
        "RowToColumnarExec",
        "WholeStageCodegenExec",
    }
)
"""Nodes of physical plans that look at one record at a time."""

_BROADCAST = ("BroadcastExchangeExec", "ReusedExchangeExec", "BroadcastQueryStageExec")
"""Below them is a table that records are joined with; it is computed once and may be anything."""


class FlowTransform:
    """The `mirror.transform` of a flow. Thread-safe."""

    def __init__(self, value: str, transform: FrameTransform | None = None) -> None:
        """`transform`: replaces the one that `value` names. Raises `ConfigError`."""
        self._value = value
        self._transform = transform or load_transform(value)

    def check(self, session: SparkSession) -> None:
        """Check what the transformation returns, without a record. Raises `ConfigError` with what
        it may not do."""
        records = session.range(0, 1, 1, 1)
        empty = map_batches(records, lambda batches: iter(()), RECORDS_SCHEMA)
        try:
            returned = self._returned(empty)
            nodes = list(_nodes(returned._jdf.queryExecution().executedPlan()))
        except PySparkException as error:
            raise wrong_transform(self._value, first_line(error)) from error
        for name in nodes:
            if name not in _PERMITTED:
                raise wrong_transform(
                    self._value,
                    f"its plan has {name.removesuffix('Exec')}, which needs more than one record "
                    "at a time or moves records. It may select, filter, compute columns, use UDFs, "
                    "mapInPandas and mapInArrow, and join tables that fit into memory, with "
                    "pyspark.sql.functions.broadcast",
                )

    def copy(
        self,
        session: SparkSession,
        flow: CopyFlow,
        shard: TransformedShard,
        limits: ShardLimits,
        claim: ClaimedProducer | None = None,
        pace: FlowLimits | None = None,
    ) -> ShardResult:
        """Copy this shard, as `shards.copy_shard`."""
        with job_errors("The transformation"):
            rows = collect(self._frame(session, flow, shard, limits, claim, pace)).to_pylist()
        return shard_result([row["result"] for row in rows])

    def _frame(
        self,
        session: SparkSession,
        flow: CopyFlow,
        shard: TransformedShard,
        limits: ShardLimits,
        claim: ClaimedProducer | None,
        pace: FlowLimits | None,
    ) -> DataFrame:
        start = session.range(0, 1, 1, 1)
        records = map_batches(start, record_reader(flow, shard), RECORDS_SCHEMA)
        copier = row_copier(flow, shard, limits, claim, pace)
        return map_batches(self._returned(records).coalesce(1), copier, "result string")

    def _returned(self, records: DataFrame) -> DataFrame:
        """Return the transformed records, with the types of COLUMNS."""
        try:
            returned = self._transform(records)
        except (PySparkException, Py4JError, ConnectionError, EOFError):
            raise  # Spark's own, or its JVM has ended.
        except Exception as error:  # Whatever the operator's function raises.
            raise wrong_transform(self._value, f"{type(error).__name__}: {error}") from error
        if not isinstance(returned, DataFrame):
            raise wrong_transform(
                self._value, f"it returned {type(returned).__name__}, not a DataFrame"
            )
        kinds = [(each.name, each.dataType.simpleString()) for each in returned.schema.fields]
        names = [name for name, _ in kinds]
        missing = [name for name in IDENTITY if name not in names]
        unknown = [name for name in names if name not in COLUMNS or names.count(name) > 1]
        if missing or unknown:
            what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}"
            raise wrong_transform(
                self._value,
                f"the DataFrame that it returns {what}. It must have the columns "
                f"{', '.join(IDENTITY)} as they "
                f"are, and may have {', '.join(name for name in COLUMNS if name not in IDENTITY)}, "
                "each once; those that it leaves out stay as they are in the record",
            )
        for name, kind in kinds:
            if name in _TYPES and kind not in _TYPES[name]:
                raise wrong_transform(
                    self._value,
                    f"column {name} has type {kind}, but must be {' or '.join(_TYPES[name])}",
                )
        return returned.select(
            [F.col(name).cast(COLUMNS[name]).alias(name) for name in COLUMNS if name in names]
        )


def _nodes(plan: Any) -> Iterator[str]:
    """Yield the names of a physical plan's nodes, without the nodes below a broadcast."""
    name = str(plan.getClass().getSimpleName())
    if name in _BROADCAST:
        return
    yield name
    below = [plan.initialPlan()] if name == "AdaptiveSparkPlanExec" else _sequence(plan.children())
    for each in below:
        yield from _nodes(each)


def _sequence(found: Any) -> list[Any]:
    return [found.apply(index) for index in range(found.size())]
