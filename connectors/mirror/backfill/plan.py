"""Turns facts into a job: where each partition starts, or why the backfill is refused.

Reads records only if necessary: if a target has records that are not accounted for, a killed
backfill may have copied them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from connect.clients.cluster.partition_reader import PartitionReader
from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.cluster_facts import ClusterFacts, ClusterSurvey
from connectors.mirror.backfill.errors import BackfillRefused, LaterRecordsThere
from connectors.mirror.backfill.scheduler import PartitionJob
from connectors.mirror.backfill.start_position import Begin, PartitionLogs, choose_begin
from connectors.mirror.compare.batch_runs import wire_runs
from connectors.mirror.compare.target_tail import Tail, TailReader
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.retention.deadline import loss_at_ms

__all__ = ["BackfillPlan", "make_plan", "weigh"]


@dataclass(slots=True)
class BackfillPlan:
    """The plan. `found`: records on the target that are not stored in the offset map yet, by source
    partition."""

    jobs: list[PartitionJob] = field(default_factory=list)
    found: dict[TopicPartition, Sequence[CopiedRange]] = field(default_factory=dict)


def make_plan(facts: ClusterFacts, gatherer: ClusterSurvey) -> BackfillPlan:
    """Make the plan. Raises `BackfillRefused` for the first partition that must not be copied, and
    the errors of reading."""
    plan = BackfillPlan()
    refused: list[BackfillRefused] = []
    reader = TailReader(gatherer.source, gatherer.target, gatherer.read_committed)
    for logs in facts.logs:
        try:
            start = _first_wanted(facts, logs, gatherer)
            begin = choose_begin(logs, start)
            job = _job(facts, logs, begin)
            if begin.look_from is not None:
                tail = _look(facts, logs, begin, reader)
                plan.found[logs.source] = tail.lines
                job.found_records = tail.records
                job.position = max(job.position, tail.position)
        except BackfillRefused as error:
            refused.append(error)
            continue
        plan.jobs.append(job)
    if refused:
        more = f" (and {len(refused) - 1} more partitions)" if len(refused) > 1 else ""
        raise type(refused[0])(f"{refused[0]}{more}")
    weigh(plan, facts, gatherer)
    return plan


def weigh(plan: BackfillPlan, facts: ClusterFacts, gatherer: ClusterSurvey) -> None:
    """Set the time at which each partition would start to lose records."""
    states = gatherer.states(facts, {job.source: job.position for job in plan.jobs})
    for job in plan.jobs:
        job.loss_at_ms = loss_at_ms(states[job.source], facts.limits[job.source[0]])


def _job(facts: ClusterFacts, logs: PartitionLogs, begin: Begin) -> PartitionJob:
    notes = [begin.note] if begin.note else []
    if begin.unsure:
        notes.append(
            "the offset map does not reach the stored offset: records after its end that a "
            "killed backfill copied are copied again"
        )
    end = max(begin.position, facts.ends[logs.source])
    return PartitionJob(
        logs.source,
        logs.target,
        begin.position,
        end,
        begin.position,
        facts.offset_bytes(logs),
        landed=logs.target_end,
        lost=begin.lost,
        note="; ".join(notes),
    )


def _look(facts: ClusterFacts, logs: PartitionLogs, begin: Begin, reader: TailReader) -> Tail:
    assert begin.look_from is not None
    topic = logs.source[0]
    tail = reader.look(
        logs.source,
        logs.target,
        (begin.position, logs.source_end),
        (begin.look_from, logs.target_end),
        timestamps=topic not in facts.append_times,
    )
    if tail.odd is None:
        return tail
    if topic in facts.compacted and logs.stored is not None:
        # Compaction removed records from either side, so the logs cannot be compared. Records after
        # the stored offset are copied again, as the live flow would.
        return Tail((), begin.position, None)
    raise LaterRecordsThere(
        f"{logs.name}: the record at offset {tail.odd} of {logs.target_name} is not the source's "
        f"next one (offset {tail.position}): another producer wrote it, or the flow copied "
        "without storing offsets. Run connect-mirror-audit to see what differs; to copy "
        f"everything again, delete {logs.target[0]} and reset the flow's stored offset"
    )


def _first_wanted(facts: ClusterFacts, logs: PartitionLogs, gatherer: ClusterSurvey) -> int | None:
    """Return the requested start; the map's first offset instead, if there is no record between the
    two."""
    start = facts.starts[logs.source]
    known = logs.known
    if start is None or known is None or known.first <= max(start, logs.source_start):
        return start
    first = max(start, logs.source_start)
    isolation: Literal[0, 1] = 1 if gatherer.read_committed else 0
    with closing(
        PartitionReader(gatherer.source, logs.source, first, known.first, isolation=isolation)
    ) as reader:
        runs = wire_runs(reader, first, known.first, committed=gatherer.read_committed)
        if any(batch.columns().offsets for batch in chain.from_iterable(runs)):
            return start
    return known.first
