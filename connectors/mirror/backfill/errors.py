"""Reasons why a backfill is refused or given up.

ConnectError
└── BackfillRefused           fatal: somebody has to do something first; the text says what
    ├── FlowIsRunning         the live flow copies the same partitions
    ├── LaterRecordsThere     the target has records that the backfill's would have to be before
    ├── WouldLeaveGap         the flow's stored offset lies before the range that was asked for
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
    """Nothing was written that breaks the order. The message names the partition and the remedy."""


class FlowIsRunning(BackfillRefused):
    """The live flow copies a requested partition."""


class LaterRecordsThere(BackfillRefused):
    """The target already has later records of the partition, or records from another origin."""


class WouldLeaveGap(BackfillRefused):
    """Records between the stored offset and the requested range would never be copied."""


class AnotherBackfill(BackfillRefused):
    """Two simultaneous backfills of one flow would copy the same records."""
