"""Types for stored source offsets."""

from __future__ import annotations

from connect.data.record import SourceOffset, SourcePartition

__all__ = ["OFFSET_NOTE", "AlteredOffset", "StoredOffset"]

StoredOffset = tuple[SourcePartition, SourceOffset | None]
AlteredOffset = tuple[SourcePartition | None, SourceOffset | None]
"""A change of offsets by a user. An offset of None is deleted. A partition of None can only be
deleted.
"""

OFFSET_NOTE = "connect.note"
"""The header of a stored offset's record in which an exactly-once task may keep a note. Java's and
our workers read only key and value.
"""
