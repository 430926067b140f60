"""A partition's idempotent producers, as a broker's log keeps them (KIP-98, KIP-360).

For each producer id: its epoch, its last sequence number, and its last five batches.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

__all__ = [
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "Producers",
    "Verdict",
]

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47

KEPT_BATCHES = 5
_SEQUENCES = 1 << 31


class Verdict(enum.Enum):
    APPEND = "append"
    DUPLICATE = "duplicate"
    REFUSE = "refuse"


@dataclass(slots=True)
class _Producer:
    epoch: int
    earliest: int = 0
    """First sequence number that was seen of this epoch."""
    last: int = -1
    """Last sequence number of this epoch; -1: no batch yet."""
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))
    """(first sequence, last sequence, base offset)"""


class Producers:
    """See the module. `names_old_duplicates`: batches older than the last five are answered with
    DUPLICATE_SEQUENCE_NUMBER, as some brokers do, rather than with OUT_OF_ORDER."""

    def __init__(self, *, names_old_duplicates: bool = False) -> None:
        self._known: dict[int, _Producer] = {}
        self._names_old_duplicates = names_old_duplicates

    def judge(self, producer: int, epoch: int, first: int, count: int) -> tuple[Verdict, int]:
        """(verdict, base offset of a duplicate, or the error code of a refusal)."""
        known = self._known.get(producer)
        if known is None:
            return Verdict.APPEND, 0  # any first sequence number
        last = (first + count - 1) % _SEQUENCES
        if known.epoch == epoch:
            for entry in known.recent:
                if entry[:2] == (first, last):
                    return Verdict.DUPLICATE, entry[2]
        if epoch < known.epoch:
            return Verdict.REFUSE, INVALID_PRODUCER_EPOCH
        if epoch > known.epoch:
            # A marker may have raised the epoch, so that the first batch of it begins anew.
            if first:
                return Verdict.REFUSE, OUT_OF_ORDER_SEQUENCE_NUMBER
            return Verdict.APPEND, 0
        if first == (known.last + 1) % _SEQUENCES:
            return Verdict.APPEND, 0
        old = bool(known.recent) and known.earliest <= first and last < known.recent[0][0]
        if old and self._names_old_duplicates:
            return Verdict.REFUSE, DUPLICATE_SEQUENCE_NUMBER
        return Verdict.REFUSE, OUT_OF_ORDER_SEQUENCE_NUMBER

    def appended(self, producer: int, epoch: int, first: int, count: int, base: int) -> None:
        """A batch that was judged so is in the log at `base`."""
        known = self._known.get(producer)
        if known is None or known.epoch != epoch:
            known = self._known[producer] = _Producer(epoch, first)
        known.last = (first + count - 1) % _SEQUENCES
        known.recent.append((first, known.last, base))

    def marked(self, producer: int, epoch: int) -> None:
        """A transaction marker of this producer is in the log."""
        known = self._known.get(producer)
        if known is None or known.epoch != epoch:
            self._known[producer] = _Producer(epoch)

    @property
    def ids(self) -> frozenset[int]:
        """The producers that are known."""
        return frozenset(self._known)

    def epoch(self, producer: int) -> int:
        """The newest epoch seen of it; -1: nothing is known of it."""
        known = self._known.get(producer)
        return -1 if known is None else known.epoch

    def forget(self, producer: int | None = None) -> None:
        """Forget one, or all: they were idle for too long, or their records were deleted."""
        if producer is None:
            self._known.clear()
        else:
            self._known.pop(producer, None)
