"""Batches as a fetch queues them, for tests of the parts that come after."""

from __future__ import annotations

from connectors.mirror.copy.batches.outgoing import Outgoing
from connectors.mirror.copy.memory import FetchBuffer

__all__ = ["outgoing"]


def outgoing(
    data: bytearray, first: int, records: int, buffer: FetchBuffer, max_timestamp: int = 0
) -> Outgoing:
    """A batch of the source offsets from `first` on, one for each record, copied as it is."""
    return Outgoing(
        data=memoryview(data),
        records=records,
        runs=((first, records),),
        resume=first + records,
        max_timestamp=max_timestamp,
        shallow=True,
        buffer=buffer,
    )
