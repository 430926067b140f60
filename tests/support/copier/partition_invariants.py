"""Checks every invariant of a partition on its way to the target (`target_partition.py`)."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.mirror.copy.batches.outgoing import UNKNOWN, Outgoing
from connectors.mirror.copy.partition.states import CopyState
from connectors.mirror.copy.partition.target_partition import (
    MOST_IN_FLIGHT,
    SEQUENCE_MASK,
    TargetPartition,
)

__all__ = ["check"]


def check(partition: TargetPartition) -> None:
    """Raise AssertionError if an invariant does not hold."""
    batches = [*partition.in_flight, *partition.queue]
    problems = [
        *_range_problems(partition, batches),
        *_sequence_problems(partition, batches),
        *_count_problems(partition, batches),
    ]
    assert problems == [], f"{partition.name}: {problems}; before: {partition.life.history()}"


def _range_problems(partition: TargetPartition, batches: list[Outgoing]) -> Iterator[str]:
    at = partition.acked_position
    for batch in batches:
        if batch.start != at:
            yield f"a batch starts at {batch.start}, but the previous one ends at {at}"
        if batch.runs and not batch.start <= batch.runs[0][0] <= batch.resume:
            yield (f"records from offset {batch.runs[0][0]} on are in a batch that starts at {at}")
        at = batch.resume


def _sequence_problems(partition: TargetPartition, batches: list[Outgoing]) -> Iterator[str]:
    expected = None
    for batch in reversed(batches):
        if batch.sequence == UNKNOWN:
            if expected is not None:
                yield (f"the batch at {batch.start} has no sequence number, but a later one has")
            continue
        after = (batch.sequence + batch.records) & SEQUENCE_MASK
        if after != (partition.next_sequence if expected is None else expected):
            yield f"the sequence number after {batch.sequence} is not the next one"
        expected = batch.sequence


def _count_problems(partition: TargetPartition, batches: list[Outgoing]) -> Iterator[str]:
    if partition.pending_bytes != sum(len(batch.data) for batch in batches):
        yield f"{partition.pending_bytes} bytes are counted as pending"
    if partition.unanswered != sum(batch.awaits_answer for batch in batches):
        yield f"{partition.unanswered} batches are counted as unanswered"
    if any(batch.awaits_answer for batch in partition.queue):
        yield "a queued batch awaits a response"
    if len(partition.in_flight) > MOST_IN_FLIGHT:
        yield f"{len(partition.in_flight)} batches are in flight"
    paused = partition.state in (CopyState.BACKOFF, CopyState.BLOCKED, CopyState.STARTING)
    if paused and partition.in_flight:
        yield f"batches are in flight while {partition.state.name}"
