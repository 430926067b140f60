"""Types for stored source offsets."""

from __future__ import annotations

from connect.data.record import SourceOffset, SourcePartition

__all__ = ["OFFSET_NOTE", "AlteredOffset", "StoredOffset"]

StoredOffset = tuple[SourcePartition, SourceOffset | None]
AlteredOffset = tuple[SourcePartition | None, SourceOffset | None]
"""What a user wants changed; None as offset: deleted. A partition of None can only be deleted."""

OFFSET_NOTE = "connect.note"
"""The header in which a task that writes exactly once may note something with a stored offset, in
the same record. Java's workers and ours read keys and values only."""
