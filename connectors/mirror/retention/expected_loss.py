"""Estimates when retention may delete the next record that a task copies. Pure."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from connect.protocol.messages import TopicPartition
from connectors.mirror.retention.deadline import LogState, RetentionLimits, loss_at_ms
from connectors.mirror.retention.timestamp_search import PRECISION_MS

__all__ = ["Behind", "expected_loss_ms", "growth"]


class Behind(NamedTuple):
    """A partition with consumer lag. `record_bytes`: the average size of its copied records; 0:
    nothing was copied yet."""

    key: TopicPartition
    position: int
    start: int
    end: int
    record_bytes: float


def growth(ends: Collection[tuple[float, int]]) -> float:
    """Return the highest growth between two measurements, in offsets per second. Pure."""
    return max(
        (
            max(0, last[1] - first[1]) / (last[0] - first[0])
            for first, last in pairwise(ends)
            if last[0] > first[0]
        ),
        default=0.0,
    )


def expected_loss_ms(
    behind: Behind,
    limits: RetentionLimits,
    stamp_ms: int | None,
    size: int | None,
    grows: float,
    now_ms: int,
) -> float:
    """Return the earliest time (epoch ms) at which retention may delete the next record; `NEVER`:
    no deletion is expected.

    `size`: bytes of the log; None if the brokers do not report it. `grows`: offsets per second.
    Pure.
    """
    offsets = max(1, behind.end - behind.start)
    known = round(behind.record_bytes * offsets) if size is None else size
    if not known:
        # Without a size, deletion by size cannot be estimated.
        limits = RetentionLimits(limits.retention_ms, None)
    # The timestamp is exact to some seconds. An early estimate is safer than a late one.
    stamp = None if stamp_ms is None else max(0, stamp_ms - PRECISION_MS)
    return loss_at_ms(
        LogState(
            behind.start,
            behind.end,
            behind.position,
            now_ms,
            stamp_ms=stamp,
            size=known,
            grows=grows * known / offsets,
        ),
        limits,
    )
