"""The audit as a table: the driver plans ranges, executors compare their records on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome, audit_ranges
from connectors.mirror.audit.engines import shares
from connectors.mirror.audit.findings import Kind
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.audit.planner import FlowToAudit, make_plan

__all__ = ["AuditTable"]

_TASKS = 64
"""Maximum number of slices, because the number of executors is not known when Spark plans."""


@dataclass(frozen=True)
class AuditSlice(InputPartition):
    """Ranges to compare, or source partitions without a copy, each with the reason."""

    setup: AuditSetup
    ranges: tuple[AuditRange, ...]
    absent: tuple[tuple[str, int, str], ...] = ()


class AuditTable:
    def slices(self, flow: FrameFlow) -> Sequence[AuditSlice]:
        asked = FlowToAudit(flow.properties, flow.offsets_topic, flow.offsets_client)
        plan = make_plan(asked, flow.topics)
        made = [AuditSlice(plan.setup, tuple(each)) for each in shares(plan.ranges, _TASKS)]
        if plan.absent:
            absent = tuple((*key, why) for key, why in sorted(plan.absent.items()))
            made.append(AuditSlice(plan.setup, (), absent))
        return made

    def rows(self, _: FrameFlow, piece: AuditSlice) -> Iterator[Row]:
        unknown = (None,) * 17
        for topic, partition, why in piece.absent:
            yield topic, partition, *unknown, why
        if piece.ranges:
            yield from map(_row, audit_ranges(piece.setup, piece.ranges))


def _row(outcome: RangeOutcome) -> Row:
    asked, found = outcome.range, outcome.result
    head = (*asked.source, asked.target[0])
    if found is None:
        planned = (asked.source_start, asked.source_end, asked.target_start, asked.target_end)
        return *head, *planned, *((None,) * 12), outcome.error
    return (
        *head,
        found.source_start,
        found.source_end,
        found.target_start,
        found.target_end,
        found.source_records,
        found.target_records,
        found.equal,
        found.pending,
        found.compacted,
        found.expired_on_source,
        found.expired_on_target,
        *(found.counts.get(kind.value, 0) for kind in Kind),
        None,
    )
