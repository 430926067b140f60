"""Turns facts into a job: where each partition starts, or why the backfill is refused.

Reads records only if necessary: if a target has records that are not accounted for, a killed
backfill may have copied them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connect.clients.cluster.cluster_link import ClusterLink
from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.cluster_facts import ClusterFacts
from connectors.mirror.backfill.errors import BackfillRefused, LaterRecordsThere
from connectors.mirror.backfill.scheduler import PartitionJob
from connectors.mirror.backfill.start_position import Begin, PartitionLogs, choose_begin
from connectors.mirror.compare.target_tail import Tail
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.retention.deadline import LogState, loss_at_ms

__all__ = ["BackfillPlan", "Survey", "TailLookup", "make_plan", "weigh"]


class TailLookup(Protocol):
    """Finds the source's next records on the target, as `TailReader.look` does."""

    def look(
        self,
        source: TopicPartition,
        target: TopicPartition,
        span: tuple[int, int],
        target_span: tuple[int, int],
        *,
        timestamps: bool | None,
    ) -> Tail: ...


class Survey(Protocol):
    """The origin of the records, and the target: a flow's source cluster (`ClusterSurvey`), or an
    archive of it. For one thread."""

    @property
    def target(self) -> ClusterLink: ...

    @property
    def tails(self) -> TailLookup: ...

    def gather(self, *, create: bool) -> ClusterFacts:
        """Gather the facts. `create`: create missing topics on the target. Raises one of
        `connect.errors`."""

    def looked_again(self, facts: ClusterFacts) -> ClusterFacts:
        """Return the same facts with the current start offsets of the source's logs."""

    def states(
        self, facts: ClusterFacts, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogState]:
        """Return the facts that decide the order of copying, by partition."""

    def has_records(self, key: TopicPartition, first: int, end: int) -> bool:
        """Whether the source has a record between these offsets (`end` is exclusive)."""


@dataclass(slots=True)
class BackfillPlan:
    """The plan. `found`: records on the target that are not stored in the offset map yet, by source
    partition."""

    jobs: list[PartitionJob] = field(default_factory=list)
    found: dict[TopicPartition, Sequence[CopiedRange]] = field(default_factory=dict)


def make_plan(facts: ClusterFacts, gatherer: Survey) -> BackfillPlan:
    """Make the plan. Raises `BackfillRefused` for the first partition that must not be copied, and
    the errors of reading."""
    plan = BackfillPlan()
    refused: list[BackfillRefused] = []
    for logs in facts.logs:
        try:
            start = _first_wanted(facts, logs, gatherer)
            begin = choose_begin(logs, start)
            job = _job(facts, logs, begin)
            if begin.look_from is not None:
                tail = _look(facts, logs, begin, gatherer.tails)
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


def weigh(plan: BackfillPlan, facts: ClusterFacts, gatherer: Survey) -> None:
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


def _look(facts: ClusterFacts, logs: PartitionLogs, begin: Begin, reader: TailLookup) -> Tail:
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


def _first_wanted(facts: ClusterFacts, logs: PartitionLogs, gatherer: Survey) -> int | None:
    """Return the requested start; the map's first offset instead, if there is no record between the
    two."""
    start = facts.starts[logs.source]
    known = logs.known
    if start is None or known is None or known.first <= max(start, logs.source_start):
        return start
    first = max(start, logs.source_start)
    return start if gatherer.has_records(logs.source, first, known.first) else known.first
