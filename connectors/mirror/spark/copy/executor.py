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
from types import MappingProxyType
from typing import Any, NamedTuple

from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.copy.range_copier import (
    RangeCopier,
    RangeProgress,
    RangeReport,
    SourceRange,
)
from connectors.mirror.copy.settings import TransactionPlan, engine_settings
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.offsets.source_offsets import source_partition
from connectors.mirror.spark.copy.executor_transactions import LaneSettings, LaneTransactions
from connectors.mirror.spark.copy.executor_transforms import (
    ExecutorTransforms,
    one_after_the_other,
)
from connectors.spark.worker_imports import leaving_zips_read

__all__ = [
    "CopyFlow",
    "ShardLimits",
    "ShardResult",
    "ranges_of_json",
    "run_shard",
    "runs_again",
    "shard_copier",
]

_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_NO_CHANGES: Mapping[TopicPartition, ChangeRecord] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CopyFlow:
    """The settings of a copier: the connector's properties, and the Java properties of its consumer
    and its producer. They contain secrets. `lanes`: whether it writes exactly once. `plugin_path`:
    directories with the classes of its `transforms`."""

    connector: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    lanes: LaneSettings | None = None
    plugin_path: Sequence[str] = ()

    def key(self) -> str:
        """Return a hash that is equal for equal properties and reveals none of them."""
        plain: list[object] = [
            sorted(each.items()) for each in (self.connector, self.consumer, self.producer)
        ]
        plain.append(None if self.lanes is None else astuple(self.lanes))
        plain.append(list(self.plugin_path))
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


class ShardLimits(NamedTuple):
    """Limits of a shard. `stall_s`: without progress for this long it ends with an error. `most_s`:
    it ends after this time without an error. `follow`: it copies records after the ranges' ends,
    too. `once`: a repeated run (because its executor was lost) copies nothing and returns `again`,
    because the first run may still be writing. It does so after `again_s` seconds, so that with
    speculation the first run wins. `prepare_s`: time for `mirror.transform`; after it nothing is
    copied. `not_after`: it does not begin later, in seconds since the epoch, by its machine's
    clock."""

    stall_s: float
    most_s: float = math.inf
    follow: bool = False
    once: bool = False
    again_s: float = 0.0
    prepare_s: float = 0.0
    not_after: float = math.inf


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The ledger of a shard. `error`: why it ended before its ranges were done; ranges copied
    before are included. If the executor was lost and Spark ran the shard again, this is the last
    run's ledger only, so some records may have been copied twice. Under exactly-once, after an
    error or `again` the stored offsets show the progress, once the lane is claimed again."""

    copied: Sequence[CopiedRange] = ()
    progress: Sequence[RangeProgress] = ()
    error: str | None = None
    again: bool = False
    """Spark had run the shard before, so this run copied nothing (`ShardLimits.once`)."""
    losses: Sequence[Loss] = ()
    transactions: Sequence[tuple[int, float]] = ()
    """Records of each committed transaction, and the milliseconds of its commit."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Counts of `task-error-metrics`, of the flow's `transforms`."""

    def to_json(self) -> str:
        return json.dumps(
            [
                [astuple(each) for each in self.copied],
                [astuple(each) for each in self.progress],
                self.error,
                self.again,
                [loss.to_json() for loss in self.losses],
                self.transactions,
                self.errors,
            ]
        )

    @classmethod
    def of_json(cls, text: str) -> ShardResult:
        copied, progress, error, again, losses, transactions, errors = json.loads(text)
        return cls(
            [
                CopiedRange(_partition(source), _partition(target), *rest)
                for source, target, *rest in copied
            ],
            [RangeProgress(_range(wanted), *rest) for wanted, *rest in progress],
            error,
            again,
            [Loss.of_json(loss) for loss in losses],
            [(records, ms) for records, ms in transactions],
            errors,
        )


def _partition(found: Sequence[Any]) -> TopicPartition:
    return found[0], found[1]


def _range(found: Sequence[Any]) -> SourceRange:
    return SourceRange(_partition(found[0]), _partition(found[1]), *found[2:])


def shard_copier(
    flow: CopyFlow,
    shard: Sequence[SourceRange],
    limits: ShardLimits,
    claim: ClaimedProducer | None = None,
    pace: FlowLimits | None = None,
    names: Mapping[str, str] = _NO_NAMES,
) -> Callable[[int], str]:
    """Return a function that copies this shard and returns its result as JSON. `claim`: its lane,
    if the flow writes exactly once. `pace`: its share of the flow's limits. `names`: its topics
    that the flow's `transforms` change, with the names that they get."""
    ranges = json.dumps([astuple(each) for each in shard])
    changed = dict(names)

    @leaving_zips_read
    def work(_: int) -> str:
        if limits.once and runs_again():
            time.sleep(limits.again_s)
            return ShardResult(error="Spark ran its task again", again=True).to_json()
        if time.time() > limits.not_after:
            return ShardResult(error=_TOO_LATE).to_json()
        wanted = ranges_of_json(ranges)
        return run_shard(flow, wanted, limits, claim, pace or NO_LIMITS, changed).to_json()

    return work


def ranges_of_json(text: str) -> list[SourceRange]:
    """Parse the ranges of a shard."""
    return [_range(each) for each in json.loads(text)]


def runs_again() -> bool:
    """Whether this is a repeated run of its task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


_LOG = logging.getLogger(__name__)

_FETCH_WAIT_MS = "100"
_TOO_LATE = (
    "Spark began its task too late: give the server more executors or fewer jobs at a time, and "
    "check that its machines' clocks agree with this one's"
)


class _Copier:
    """A copier of one flow and, under exactly-once, the lane that it writes with."""

    def __init__(self, flow: CopyFlow) -> None:
        config = SourceConfig.from_properties(flow.connector)
        # The next shard may have other partitions: it must not wait for a fetch of this one.
        consumer = {**flow.consumer, "fetch.max.wait.ms": _FETCH_WAIT_MS}
        settings = engine_settings(config, consumer, flow.producer)
        self._lane: LaneTransactions | None = None
        plan: TransactionPlan | None = None
        if flow.lanes is not None:
            self._lane = LaneTransactions(settings.target, flow.lanes)
            keys = partial(source_partition, config.source_cluster_alias)
            plan = TransactionPlan(self._lane, keys)
        self.ranges = RangeCopier(settings, transactions=plan, starts_stored=True)
        self.transforms = ExecutorTransforms(
            flow.connector, flow.plugin_path, config.mirror_spark_batch_s
        )

    def begin(self, claim: ClaimedProducer | None) -> None:
        if self._lane is not None:
            assert claim is not None, "no lane was claimed for the shard"
            self._lane.begin(claim)

    def committed(self) -> list[tuple[int, float]]:
        """Return (records, milliseconds) of each transaction since `begin`."""
        return [] if self._lane is None else self._lane.committed()

    def close(self) -> None:
        self.ranges.close()
        self.transforms.close()
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


def run_shard(
    flow: CopyFlow,
    ranges: Sequence[SourceRange],
    limits: ShardLimits,
    claim: ClaimedProducer | None,
    pace: FlowLimits,
    names: Mapping[str, str] = _NO_NAMES,
    first: Mapping[TopicPartition, ChangeRecord] = _NO_CHANGES,
) -> ShardResult:
    """Copy one shard. `names`: as `shard_copier`. `first`: transformations that come before those
    of `transforms`. Errors are returned, because Spark would run the shard again after an
    exception."""
    report = RangeReport()
    error: str | None = None
    losses: Sequence[Loss] = ()
    committed: Sequence[tuple[int, float]] = ()
    errors: Mapping[str, float] = {}
    try:
        key = flow.key()
        copier = _take_copier(flow, key)
        try:
            never = threading.Event()
            changes = dict(first)
            for each, change in copier.transforms.changes(
                [each.source for each in ranges], names
            ).items():
                before = changes.get(each)
                changes[each] = change if before is None else one_after_the_other(before, change)
            copier.begin(claim)
            # No progress reports in between, because the rows are only returned at the end.
            copier.ranges.copy(
                ranges,
                report.add,
                stop=never,
                stall_s=limits.stall_s,
                report_s=math.inf,
                most_s=limits.most_s,
                follow=limits.follow,
                limits=pace,
                changes=changes,
            )
        finally:
            losses, committed = copier.ranges.losses, copier.committed()
            errors = copier.transforms.errors()
            _give_back(copier, key)
    except ConnectError as failure:
        error = str(failure)
    except Exception as failure:  # noqa: BLE001 - the top of a task, which Spark would repeat
        _LOG.exception(
            "a shard failed with an unexpected error; this is a defect: report it with the trace"
        )
        error = f"{type(failure).__name__}: {failure}"
    return ShardResult(report.copied, report.progress, error, False, losses, committed, errors)
