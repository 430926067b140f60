"""One batch to send to the target, and how its failure is handled."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from connect.protocol.records import Rebatched
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = ["UNKNOWN", "Failure", "Outgoing", "from_rebatched"]

UNKNOWN = -1


class Failure(enum.Enum):
    """How the copier continues after the target has rejected a batch."""

    RETRY = "retry"
    SPLIT = "split"
    NEW_PRODUCER = "new producer"
    BLOCK = "block"
    ABORT = "abort the transaction"
    QUARANTINE = "quarantine"
    """Like BLOCK, but the record itself is invalid and can be quarantined."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """One batch for the target: a whole magic-2 batch in `data`.

    The batch covers the source offsets from `start` to `resume` (exclusive). `runs` are the source
    offsets of its records, in order. Other offsets of the range need no copying (markers, aborted
    or compacted records).
    """

    data: memoryview
    records: int
    runs: Sequence[OffsetRun]
    resume: int
    max_timestamp: int
    shallow: bool
    buffer: FetchBuffer
    start: int = UNKNOWN
    """First source offset of the range. Set when the batch is queued."""
    sequence: int = UNKNOWN
    """First sequence number. It is assigned at the first send and kept for every resend."""
    awaits_answer: bool = False
    """Sent, not answered yet, and the connection is not lost."""
    answered: bool = False
    """Acknowledged by the target; earlier batches may still be unacknowledged."""
    maybe_written: bool = False
    """Sent and not acknowledged, but the target may have written it."""
    failure: Failure | None = None
    reason: str = ""
    base_offset: int = UNKNOWN

    def move_to_own_memory(self, budget: MemoryBudget) -> None:
        """Copy the bytes, unless the memory is the batch's own. A socket may still be sending the
        old memory, so that is not used again."""
        if self.buffer.size == len(self.data):
            return
        own = bytearray(self.data)
        old, self.buffer = self.buffer, FetchBuffer(budget, own)
        self.data = memoryview(own)
        self.buffer.retain()
        old.abandon()


def from_rebatched(part: Rebatched, budget: MemoryBudget) -> Outgoing:
    """Convert a re-encoded batch into one for the target, with its own memory."""
    return Outgoing(
        data=memoryview(part.data),
        records=part.records,
        runs=part.runs,
        resume=part.last_source_offset + 1,
        max_timestamp=part.max_timestamp,
        shallow=False,
        buffer=FetchBuffer(budget, part.data),
    )
