"""Numbers of records over all logs that a source partition had, one after another.

A topic that is created again begins at offset 0, and a log that was cut off goes on where it ends.
A record's number is its offset in the first life of its log, and its offset with `LIFE` added in
the next one. So numbers grow in the order of writing.
"""

from __future__ import annotations

__all__ = ["LIFE", "life_of", "offset_of"]

LIFE = 1_000_000


def life_of(number: int) -> int:
    """How often the log had begun anew when this record was written."""
    return number // LIFE


def offset_of(number: int) -> int:
    """The offset of this record in its log."""
    return number % LIFE
