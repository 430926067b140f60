"""The parts of a transformed shard that run on executors: the reader of its records, and the copier
that writes the transformed ones.

Both are Python processes of one Spark task, with the plan of `mirror.transform` between them. The
reader only reads. The copier takes all rows first; then it copies the shard's ranges like any
other, and asks the rows for each record by its source offset. So order, offset map, transactions
and losses are those of a flow without a transformation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.cluster.partition_reader import PartitionReader
from connect.clients.config.properties import fetch_settings, wire_settings
from connect.errors import BrokerUnavailable, ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.compare.batch_runs import wire_runs
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.spark.copy.executor import (
    CopyFlow,
    ShardLimits,
    ShardResult,
    ranges_of_json,
    run_shard,
    runs_again,
)
from connectors.mirror.spark.transform.records import RecordRows, TransformedRows, not_known
from connectors.spark.worker_imports import drop_importers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TransformedShard", "record_reader", "row_copier"]

_FETCH_BYTES = 4 * 1024 * 1024
_STALL_S = 20.0

Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True, slots=True)
class TransformedShard:
    """A shard of a flow with `mirror.transform`. `topics`: those whose records it gets. `probes`:
    partitions whose source seems to end before the range. `names`: as in `shard_copier`."""

    ranges: Sequence[SourceRange]
    topics: frozenset[str]
    probes: frozenset[TopicPartition] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> list[SourceRange]:
        """Return the ranges whose records are read and transformed."""
        return [
            each
            for each in self.ranges
            if each.source[0] in self.topics and each.source not in self.probes
        ]


def record_reader(flow: CopyFlow, shard: TransformedShard) -> Batches:
    """Return a function for `map_batches` that yields the records of the shard as rows."""
    text = json.dumps([astuple(each) for each in shard.read()])
    consumer = dict(flow.consumer)

    def read(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            ranges = ranges_of_json(text)
            if ranges:
                yield from _rows(consumer, ranges)
        finally:
            drop_importers()

    return read


def _rows(consumer: Mapping[str, str], ranges: Sequence[SourceRange]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these ranges, as far as the source has not deleted them. Raises
    `BrokerUnavailable` if it does not have all of the rest: what it lacks would count as left
    out."""
    isolation = fetch_settings(consumer).isolation_level
    keys = [each.source for each in ranges]
    link = ClusterLink(
        wire_settings(consumer), lambda: None, name="transform", topics={key[0] for key in keys}
    )
    with closing(link):
        starts = listed(link, keys, EARLIEST, 0)
        ends = listed(link, keys, LATEST, isolation)
        for each in ranges:
            key = each.source
            if ends[key] < each.end:
                raise BrokerUnavailable(
                    f"{key[0]}-{key[1]} ends at offset {ends[key]}, but records up to offset "
                    f"{each.end - 1} are to be transformed: the source may have lost records; "
                    "trying again"
                )
            first = min(each.end, max(each.start, starts[key]))
            reader = PartitionReader(
                link,
                key,
                first,
                each.end,
                isolation=isolation,
                fetch_bytes=_FETCH_BYTES,
                stall_s=_STALL_S,
            )
            with closing(reader):
                rows = RecordRows(key)
                for run in wire_runs(reader, first, each.end, committed=isolation == 1):
                    for batch in run:
                        columns = batch.columns()
                        for offset, stamp, tail in zip(
                            columns.offsets, columns.timestamps, columns.tails, strict=True
                        ):
                            rows.add(offset, stamp, bytes(tail))
                            if rows.full:
                                yield rows.to_arrow()
                                rows = RecordRows(key)
                if len(rows):
                    yield rows.to_arrow()


def row_copier(
    flow: CopyFlow,
    shard: TransformedShard,
    limits: ShardLimits,
    claim: ClaimedProducer | None = None,
    pace: FlowLimits | None = None,
) -> Batches:
    """Return a function for `map_batches` that takes the transformed rows, copies the shard, and
    yields the JSON of its `ShardResult`."""
    text = json.dumps([astuple(each) for each in shard.ranges])
    read = json.dumps([astuple(each) for each in shard.read()])
    probes = [key for key in shard.probes if key[0] in shard.topics]
    names = dict(shard.names)

    def copy(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.monotonic()
        try:
            if limits.once and runs_again():
                # If the transformation fails again, that is the reason to report.
                for _ in rows:
                    pass
                time.sleep(limits.again_s)
                yield _result(ShardResult(error="Spark ran its task again", again=True))
                return
            found = TransformedRows(ranges_of_json(read))
            try:
                for batch in rows:
                    found.take(batch)
            except ConnectError as error:
                for _ in rows:  # Spark expects that all rows are read.
                    pass
                yield _result(ShardResult(error=str(error)))
                return
            took = time.monotonic() - began
            if took > limits.prepare_s:
                # After this time another task may copy these partitions.
                yield _result(ShardResult(error=_slow(took, limits.prepare_s)))
                return
            changes = {**found.changes(), **{key: not_known(key) for key in probes}}
            wanted = ranges_of_json(text)
            yield _result(run_shard(flow, wanted, limits, claim, pace or NO_LIMITS, names, changes))
        finally:
            drop_importers()

    return copy


def _slow(took: float, most_s: float) -> str:
    return (
        f"mirror.transform took {took:.0f} s for one shard, longer than the {most_s:g} s that it "
        "has: make it faster, or give Spark more cores"
    )


def _result(result: ShardResult) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([result.to_json()], pa.string())], ["result"])
