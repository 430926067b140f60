"""MirrorMaker 2's own memory of offset syncs, and the translation it allows.

Of each source partition 64 slots are kept, ever farther apart: near the newest sync a translation
is close, far behind it falls back by up to half of the distance. What is kept depends on the order
of syncs only, so every reader of the same topic that follows these rules gives the same answers.
Slots may hold the same sync; that they do is part of the rules, so syncs are compared by identity.

Invariants, for slots i < j with different syncs (`validate` checks them):

    slot 0 holds the newest sync
    up[i] <= up[j] + 2^j - 2^i         close enough together
    up[i] >= up[j] + 2^max(i-2, 0)     far enough apart, unless up[i] = up[j]

Source: KIP-382 and Kafka 4.3.1's OffsetSyncStore, whose states `tests/unit` holds. Pure. Slots are
replaced as a whole, so one thread may apply syncs while others translate.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import OffsetSync

__all__ = ["SLOTS", "TOO_OLD", "OffsetSyncStore"]

SLOTS = 64
TOO_OLD = -1
"""Java's answer for an offset before every sync that is kept."""


class OffsetSyncStore:
    """The syncs of one offset-syncs topic; see the module."""

    def __init__(self, *, keep_all_while_loading: bool = True) -> None:
        """`keep_all_while_loading` False: until `finish_loading`, each sync replaces all before
        it. Java does so where it could not read its own checkpoints, so as not to go back."""
        self._slots: dict[TopicPartition, list[OffsetSync]] = {}
        self._keep_all = keep_all_while_loading
        self._loading = True

    @property
    def loading(self) -> bool:
        return self._loading

    def finish_loading(self) -> None:
        """The topic was read to its end; translations are given from now on."""
        self._loading = False

    def apply(self, sync: OffsetSync) -> None:
        """The next sync of the topic."""
        key = (sync.topic, sync.partition)
        slots = self._slots.get(key)
        rewound = slots is not None and sync.upstream_offset < slots[0].upstream_offset
        if slots is None or rewound or (self._loading and not self._keep_all):
            self._slots[key] = [sync] * SLOTS
        else:
            self._slots[key] = _with_newest(slots, sync)

    def translate(self, topic: str, partition: int, upstream: int) -> int | None:
        """Where a group that reads `upstream` next goes on, at the latest, without leaving out a
        record. None: nothing is known of the partition. `TOO_OLD`: no sync is old enough."""
        if self._loading or (topic, partition) not in self._slots:
            return None
        sync = self.nearest(topic, partition, upstream)
        if sync is None:
            return TOO_OLD
        # The record at an earlier sync was read; of those behind it nothing is known.
        read = sync.upstream_offset < upstream
        return sync.downstream_offset + 1 if read else sync.downstream_offset

    def nearest(
        self, topic: str, partition: int, upstream: int, below: int | None = None
    ) -> OffsetSync | None:
        """The newest sync that is not after `upstream`; None where there is none, or still
        loading. `below`: only of target offsets before this one."""
        if self._loading:
            return None
        for sync in self._slots.get((topic, partition), ()):
            there = below is None or sync.downstream_offset < below
            if there and sync.upstream_offset <= upstream:
                return sync
        return None

    def partitions(self) -> Iterable[TopicPartition]:
        """The source partitions that there are syncs of."""
        return list(self._slots)

    def syncs(self, topic: str, partition: int) -> list[tuple[int, OffsetSync]]:
        """(first slot, sync) of each different sync, newest first."""
        found: list[tuple[int, OffsetSync]] = []
        for index, sync in enumerate(self._slots.get((topic, partition), ())):
            if not found or found[-1][1] is not sync:
                found.append((index, sync))
        return found

    def validate(self) -> None:
        """Check the invariants of neighbours. Raises AssertionError."""
        for key, slots in self._slots.items():
            for i, (newer, older) in enumerate(pairwise(slots)):
                assert _close(newer, older, i, i + 1), (key, i)
                again = newer.upstream_offset == older.upstream_offset
                assert again or _apart(newer, older, i), (key, i)


def _close(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    return newer is older or (newer.upstream_offset <= older.upstream_offset + (1 << j) - (1 << i))


def _apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    return newer is older or (newer.upstream_offset >= older.upstream_offset + (1 << max(i - 2, 0)))


def _with_newest(old: list[OffsetSync], newest: OffsetSync) -> list[OffsetSync]:
    """The slots after one more sync. The steps are Java's, because which syncs survive is what
    makes translations agree."""
    slots = old.copy()
    slots[0] = candidate = newest
    cursor = 0
    for k in range(1, SLOTS):
        before = slots[k - 1]
        while True:
            offered = old[cursor]
            apart = _apart(before, offered, k - 1)
            fits = (
                apart
                and _close(before, offered, k - 1, k)
                and (k == SLOTS - 1 or _apart(offered, slots[k + 1], k))
            )
            repeated = cursor < SLOTS - 1 and old[cursor + 1] is offered
            skip = repeated or not apart
            if fits:
                candidate = offered
            if fits or skip:
                cursor += 1
            if cursor >= k or not skip:
                break
        if _close(before, slots[k], k - 1, k):
            break
        slots[k] = candidate
    return slots
