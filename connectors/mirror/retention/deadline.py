"""Estimates when retention deletes records of a partition that are not copied yet, so that the most
urgent partition is copied first.

A broker deletes whole segments from the start of a log: those whose newest record is older than
`retention.ms`, and the oldest ones while the rest is at least `retention.bytes`. Clients cannot see
segments. The result is therefore the earliest time at which the next record may be deleted. Its
segment may have younger records and stay longer. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NEVER", "LogState", "RetentionLimits", "limits_of", "loss_at_ms"]

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The retention limits of a topic; None: no such limit."""

    retention_ms: int | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LogState:
    """A source partition as measured at `seen_ms` (epoch). `position`: the next offset to copy.
    `stamp_ms`: the timestamp of its record; None if not known. `size`: bytes on the broker's disk.
    `grows`: bytes appended per second. `trimmed`: offsets deleted per second."""

    start: int
    end: int
    position: int
    seen_ms: int
    stamp_ms: int | None = None
    size: int = 0
    grows: float = 0.0
    trimmed: float = 0.0
    before: int | None = None
    """Bytes of the log before `position`; None: estimated from the share of the offsets."""


def limits_of(configs: Mapping[str, str]) -> RetentionLimits:
    """Return the retention limits in a topic's effective configs."""
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return RetentionLimits()
    return RetentionLimits(
        _limit(configs.get("retention.ms")),
        _limit(configs.get("retention.bytes")),
    )


def _limit(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if number >= 0 else None


def loss_at_ms(log: LogState, limits: RetentionLimits) -> float:
    """Return the time (epoch ms) from which on retention may delete the next record to copy; never
    before `seen_ms`. `NEVER`: no deletion is expected.
    """
    if log.position >= log.end:
        return NEVER
    soonest = min(_by_age(log, limits), _by_size(log, limits), _by_trend(log))
    return max(float(log.seen_ms), soonest)


def _by_age(log: LogState, limits: RetentionLimits) -> float:
    if limits.retention_ms is None:
        return NEVER
    if log.stamp_ms is None or log.stamp_ms < 0:
        # A record without a timestamp counts as very old.
        return float(log.seen_ms)
    return float(log.stamp_ms + limits.retention_ms)


def _by_size(log: LogState, limits: RetentionLimits) -> float:
    """Estimate by size: records before the position are deleted first, then the one at the
    position.
    """
    if limits.retention_bytes is None:
        return NEVER
    before = float(_share_before(log) if log.before is None else log.before)
    room = limits.retention_bytes + before - log.size
    if room <= 0:
        return float(log.seen_ms)
    return log.seen_ms + room / log.grows * 1000 if log.grows > 0 else NEVER


def _share_before(log: LogState) -> float:
    return log.size * max(0, log.position - log.start) / max(1, log.end - log.start)


def _by_trend(log: LogState) -> float:
    """Estimate by the trend of the log start offset, whatever moves it."""
    if log.trimmed <= 0:
        return NEVER
    return log.seen_ms + max(0, log.position - log.start) / log.trimmed * 1000
