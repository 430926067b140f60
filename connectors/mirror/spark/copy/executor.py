"""The part of a copy that runs on executors: copies a shard of ranges with a copier that the Python
process keeps.

The copier is created from the flow's client properties. It is kept for the next shard, with its
connections and producer IDs. This module and its imports must not need PySpark or PyArrow, because
executors have only these files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import NamedTuple

from connect.errors import ConnectError
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.copy.range_copier import RangeCopier, RangeProgress, SourceRange
from connectors.mirror.copy.settings import TransactionPlan, engine_settings
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.offsets.offset_sync_writer import source_partition
from connectors.mirror.spark.copy.executor_transactions import LaneSettings, LaneTransactions
from connectors.spark.worker_imports import leaving_zips_read

__all__ = [
    "AGAIN",
    "COPIED",
    "FIGURES",
    "LOST",
    "REACHED",
    "ROW",
    "SHARD",
    "TRANSACTION",
    "CopyFlow",
    "ShardLimits",
    "shard_copier",
]

COPIED, REACHED, LOST, SHARD, AGAIN = "copied", "reached", "lost", "shard", "again"
TRANSACTION = "transaction"
"""Kinds of rows (`shards.SHARD_ROWS`)."""

FIGURES = (
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
    "throttled_ms",
)

ROW = (
    "shard",
    "kind",
    "topic",
    "partition",
    "source_start",
    "target_start",
    "records",
    "bytes",
    "position",
    "lost",
    "shallow_records",
    "shallow_batches",
    "level_batches",
    "high_watermark",
    "log_start",
    "newest_timestamp",
    "throttled_ms",
    "limited_by",
    "ms",
    "error",
)
"""The columns of a row, in order."""

Rows = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class CopyFlow:
    """The settings of a copier: the connector's properties, and the Java properties of its consumer
    and its producer. They contain secrets. `lanes`: whether it writes exactly once."""

    connector: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    lanes: LaneSettings | None = None

    def key(self) -> str:
        """Return a hash that is equal for equal properties and reveals none of them."""
        plain: list[object] = [
            sorted(each.items()) for each in (self.connector, self.consumer, self.producer)
        ]
        plain.append(None if self.lanes is None else astuple(self.lanes))
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


class ShardLimits(NamedTuple):
    """Limits of a shard (`shards`)."""

    stall_s: float
    most_s: float = math.inf
    rate: float | None = None
    once: bool = False
    again_s: float = 0.0


def shard_copier(
    flow: CopyFlow,
    shards: Sequence[str],
    limits: ShardLimits,
    claims: Sequence[ClaimedProducer] | None = None,
    paces: Sequence[FlowLimits] | None = None,
) -> Callable[[int], Rows]:
    """Return a function that copies shard number n, given as the JSON of its ranges, and returns
    its rows. `claims`: the lane of each shard, if the flow writes exactly once. `paces`: each
    shard's share of the flow's limits."""

    @leaving_zips_read
    def work(number: int) -> Rows:
        if limits.once and _runs_again():
            time.sleep(limits.again_s)
            return [_row({"kind": AGAIN, "shard": number})]
        claim = None if claims is None else claims[number]
        pace = NO_LIMITS if paces is None else paces[number]
        return _run(flow, number, _ranges(shards[number]), limits, claim, pace)

    return work


def _runs_again() -> bool:
    """Whether this is a repeated run of its task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def _ranges(text: str) -> list[SourceRange]:
    return [SourceRange((a, b), (c, d), start, end) for a, b, c, d, start, end in json.loads(text)]


_LOG = logging.getLogger(__name__)


class _Copier:
    """A copier of one flow and, under exactly-once, the lane that it writes with."""

    def __init__(self, flow: CopyFlow) -> None:
        config = SourceConfig.from_properties(flow.connector)
        settings = engine_settings(config, flow.consumer, flow.producer)
        self._lane: LaneTransactions | None = None
        plan: TransactionPlan | None = None
        if flow.lanes is not None:
            self._lane = LaneTransactions(settings.target, flow.lanes)
            keys = partial(source_partition, config.source_cluster_alias)
            plan = TransactionPlan(self._lane, keys)
        self.ranges = RangeCopier(settings, transactions=plan, starts_stored=True)

    def begin(self, claim: ClaimedProducer | None) -> None:
        if self._lane is not None:
            assert claim is not None, "no lane was claimed for the shard"
            self._lane.begin(claim)

    def committed(self) -> list[tuple[int, float]]:
        """Return (records, milliseconds) of each transaction since `begin`."""
        return [] if self._lane is None else self._lane.committed()

    def close(self) -> None:
        self.ranges.close()
        if self._lane is not None:
            self._lane.close()


_copiers: dict[str, _Copier] = {}
_copiers_lock = threading.Lock()
_MOST_KEPT = 2
"""Maximum number of copiers that a Python process keeps, for flows whose shards alternate in it."""


def _take_copier(flow: CopyFlow, key: str) -> _Copier:
    with _copiers_lock:
        kept = _copiers.pop(key, None)
    return _Copier(flow) if kept is None else kept


def _give_back(copier: _Copier, key: str) -> None:
    old: list[_Copier] = []
    if copier.ranges.usable:
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
    flow: CopyFlow,
    number: int,
    ranges: Sequence[SourceRange],
    limits: ShardLimits,
    claim: ClaimedProducer | None,
    pace: FlowLimits,
) -> Rows:
    """Return the rows of one shard. Errors are returned as rows, because Spark would run the shard
    again after an exception."""
    lines: list[CopiedRange] = []
    last: list[RangeProgress] = []

    def note(progress: Sequence[RangeProgress], copied: Sequence[CopiedRange]) -> None:
        lines.extend(copied)
        last[:] = progress

    error: str | None = None
    losses: Sequence[Loss] = ()
    committed: Sequence[tuple[int, float]] = ()
    try:
        key = flow.key()
        copier = _take_copier(flow, key)
        try:
            never = threading.Event()
            copier.begin(claim)
            # No progress reports in between, because the rows are only returned at the end.
            copier.ranges.copy(
                ranges,
                note,
                stop=never,
                stall_s=limits.stall_s,
                report_s=math.inf,
                most_s=limits.most_s,
                rate=limits.rate,
                limits=pace,
            )
        finally:
            losses, committed = copier.ranges.losses, copier.committed()
            _give_back(copier, key)
    except ConnectError as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 - the top of a task, which Spark would repeat
        _LOG.exception("a shard failed with an unexpected error")
        error = f"{type(failure).__name__}: {failure}"
    rows = [_copied_row(line) for line in lines] + [_reached_row(progress) for progress in last]
    rows += [{"kind": LOST, "error": loss.to_json()} for loss in losses]
    rows += [{"kind": TRANSACTION, "records": count, "ms": ms} for count, ms in committed]
    rows.append({"kind": SHARD, "error": error})
    return [_row({**row, "shard": number}) for row in rows]


def _row(values: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(values.get(name) for name in ROW)


def _copied_row(line: CopiedRange) -> dict[str, object]:
    return {
        "kind": COPIED,
        "topic": line.source[0],
        "partition": line.source[1],
        "source_start": line.source_start,
        "target_start": line.target_start,
        "records": line.records,
    }


def _reached_row(progress: RangeProgress) -> dict[str, object]:
    source = progress.range.source
    return {
        "kind": REACHED,
        "topic": source[0],
        "partition": source[1],
        "error": progress.error,
        "limited_by": progress.limited_by,
        **{name: getattr(progress, name) for name in FIGURES},
    }
