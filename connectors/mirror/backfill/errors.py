"""Reasons why a backfill is refused or aborted.

ConnectError
└── BackfillRefused           fatal: the message says what to do first
    ├── FlowIsRunning         the live flow copies the same partitions
    ├── LaterRecordsThere     the target already has records that must follow those of the backfill
    ├── WouldLeaveGap         the flow's stored offset is before the requested range
    └── AnotherBackfill       another backfill of this flow runs
"""

from __future__ import annotations

from connect.errors import ConnectError

__all__ = [
    "AnotherBackfill",
    "BackfillRefused",
    "FlowIsRunning",
    "LaterRecordsThere",
    "WouldLeaveGap",
]


class BackfillRefused(ConnectError):
    """The backfill is refused, and has written nothing that breaks the order. The message names the
    partition and the remedy."""


class FlowIsRunning(BackfillRefused):
    """The live flow copies a requested partition."""


class LaterRecordsThere(BackfillRefused):
    """The target already has later records of the partition, or records of another producer."""


class WouldLeaveGap(BackfillRefused):
    """Records between the stored offset and the requested range would never be copied."""


class AnotherBackfill(BackfillRefused):
    """Two simultaneous backfills of one flow would copy the same records."""
