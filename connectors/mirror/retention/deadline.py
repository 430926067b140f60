"""Estimates when a partition loses records that are not copied yet; the most urgent goes first.

A broker deletes whole segments from the old end of a log: those whose newest record is older than
`retention.ms`, and the oldest ones while the rest is still `retention.bytes` or more. Segments are
not visible to clients, so the result is the earliest moment at which the first record to copy may
be deleted: its segment may have younger records and stay longer. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NEVER", "LogState", "RetentionLimits", "limits_of", "loss_at_ms"]

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The retention limits of a topic; None: no limit of this kind."""

    retention_ms: int | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LogState:
    """A source partition as measured at `seen_ms` (epoch). `position`: the next offset to copy;
    `stamp_ms`: the timestamp of its record, None if it is not known. `size` in bytes on the
    broker's disk. `grows` and `trimmed`: bytes a second that are appended, and offsets a second
    that are deleted."""

    start: int
    end: int
    position: int
    seen_ms: int
    stamp_ms: int | None = None
    size: int = 0
    grows: float = 0.0
    trimmed: float = 0.0
    before: int | None = None
    """Bytes of the log before `position`; None: estimate them by the share of the offsets."""


def limits_of(configs: Mapping[str, str]) -> RetentionLimits:
    """The limits in a topic's effective configs."""
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
    """The moment (epoch ms) from which on the next record to copy may be deleted; `NEVER`: no
    deletion is expected. Not before `seen_ms`."""
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
    """Records before the position are deleted first, then the record at the position."""
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
    """The trend of the log start offset, whatever its cause."""
    if log.trimmed <= 0:
        return NEVER
    return log.seen_ms + max(0, log.position - log.start) / log.trimmed * 1000
