"""Why a backfill is not begun, or is given up.

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
    """Nothing was written that breaks the order; the message names partition and remedy."""


class FlowIsRunning(BackfillRefused):
    """The live flow copies a partition that the backfill was asked for."""


class LaterRecordsThere(BackfillRefused):
    """The target already has later records of the partition, or records of another origin."""


class WouldLeaveGap(BackfillRefused):
    """Records between the stored offset and the range asked for would never be copied."""


class AnotherBackfill(BackfillRefused):
    """Two backfills of one flow at a time would copy the same records."""
