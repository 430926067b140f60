"""Consumer lag of one partition, for both engines. Pure."""

from __future__ import annotations

from connectors.mirror.copy.batches.outgoing import UNKNOWN

__all__ = ["lag_in_ms", "lag_in_records"]


def lag_in_records(end: int, position: int) -> int | None:
    """Return the records from the position to the source's end; None until both are known."""
    return None if UNKNOWN in (end, position) else max(0, end - position)


def lag_in_ms(lag: int | None, newest_timestamp: int, now_ms: int) -> int | None:
    """Return the age of the newest copied record while there is lag; 0 if caught up."""
    if lag is None or (lag > 0 and newest_timestamp == UNKNOWN):
        return None
    return max(0, now_ms - newest_timestamp) if lag else 0
