"""MirrorMaker 2's store of offset syncs, and the translation with it.

For each source partition 64 slots hold syncs at growing distances. Near the newest sync a
translation is close; far behind it, it is too low by up to half of the distance. The slots depend
only on the order of syncs, so every reader of the same topic that follows these rules translates
alike. Several slots may hold the same sync, which is part of the rules, so syncs are compared by
identity.

Invariants, for slots i < j with different syncs (`validate` checks them):

    slot 0 holds the newest sync
    up[i] <= up[j] + 2^j - 2^i         close enough together
    up[i] >= up[j] + 2^max(i-2, 0)     far enough apart, unless up[i] = up[j]

Source: KIP-382 and Kafka 4.3.1's OffsetSyncStore, whose states are in `tests/unit`. Pure. Slots are
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
"""Java's result for an offset before all kept syncs."""


class OffsetSyncStore:
    """The syncs of one offset-syncs topic. One thread may apply syncs while others translate."""

    def __init__(self, *, keep_all_while_loading: bool = True) -> None:
        """`keep_all_while_loading` False: until `finish_loading`, each sync replaces all earlier
        ones. Java does so if it could not read its own checkpoints, so that groups do not move
        back."""
        self._slots: dict[TopicPartition, list[OffsetSync]] = {}
        self._keep_all = keep_all_while_loading
        self._loading = True

    @property
    def loading(self) -> bool:
        return self._loading

    def finish_loading(self) -> None:
        """Note that the topic was read to its end. Translations are possible from now on."""
        self._loading = False

    def apply(self, sync: OffsetSync) -> None:
        """Apply the next sync of the topic."""
        key = (sync.topic, sync.partition)
        slots = self._slots.get(key)
        rewound = slots is not None and sync.upstream_offset < slots[0].upstream_offset
        if slots is None or rewound or (self._loading and not self._keep_all):
            self._slots[key] = [sync] * SLOTS
        else:
            self._slots[key] = _with_newest(slots, sync)

    def translate(self, topic: str, partition: int, upstream: int) -> int | None:
        """Return the highest target offset that is safe for a group that reads `upstream` next, so
        that no record is skipped. None: nothing is known of the partition. `TOO_OLD`: no sync is
        old enough."""
        if self._loading or (topic, partition) not in self._slots:
            return None
        sync = self.nearest(topic, partition, upstream)
        if sync is None:
            return TOO_OLD
        # The record at an earlier sync was read. Nothing is known of the records after it.
        read = sync.upstream_offset < upstream
        return sync.downstream_offset + 1 if read else sync.downstream_offset

    def nearest(
        self, topic: str, partition: int, upstream: int, below: int | None = None
    ) -> OffsetSync | None:
        """Return the newest sync that is not after `upstream`; None if there is none, or while
        loading. `below`: only syncs with a target offset before this one."""
        if self._loading:
            return None
        for sync in self._slots.get((topic, partition), ()):
            there = below is None or sync.downstream_offset < below
            if there and sync.upstream_offset <= upstream:
                return sync
        return None

    def partitions(self) -> Iterable[TopicPartition]:
        """Return the source partitions with syncs."""
        return list(self._slots)

    def syncs(self, topic: str, partition: int) -> list[tuple[int, OffsetSync]]:
        """Return (first slot, sync) of each different sync, newest first."""
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
    """Return the slots after one more sync. The steps are Java's, because the remaining syncs must
    be the same for translations to agree."""
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
